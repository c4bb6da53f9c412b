"""The routes of images by id; no other file can be read."""

from collections.abc import Callable

from fastapi import APIRouter, HTTPException
from fastapi.responses import Response

IMAGE_SIDES = (320, 1280)  # pixels of the longer side: in a grid, and alone
ImageLoader = Callable[[str, int], bytes | None]


def image_routes(path: str, is_known: Callable[[str], bool], load_image: ImageLoader) -> APIRouter:
    """Return the route of the JPEGs below `path`, such as /image; `load_image` returns one by id and longer side in
    pixels, or None."""
    routes = APIRouter()

    @routes.get(path + "/{side}/{image_id}")
    def one(side: int, image_id: str) -> Response:
        jpeg = load_image(image_id, side) if side in IMAGE_SIDES and is_known(image_id) else None
        if jpeg is None:
            raise HTTPException(404, "no such picture is at hand")
        return Response(jpeg, media_type="image/jpeg", headers={"cache-control": "private, max-age=3600"})

    return routes
