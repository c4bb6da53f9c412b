"""The addresses of a folder's page: the page, its data, its actions, and the review of each set inside it."""

from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Annotated, Literal

from fastapi import APIRouter, Body, HTTPException, Request
from fastapi.responses import HTMLResponse, PlainTextResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Receive, Scope, Send

from flows.door import GOLDEN, Door, make_sheet, normalise_path, read_shown_page, recognise_file
from querytruth.backends.images.rendering import THUMBNAIL_LIMITS, ThumbnailJob, run_thumbnail_job
from querytruth.backends.images.worker_processes import map_in_workers
from querytruth.checks.answers import NO_IMAGE
from querytruth.errors import UserError
from querytruth.review.page_parts import page_below
from querytruth.review.server import IMAGE_SIDES, build_site

# A page on disk may be of anyone: it runs apart from this one, without its cookie, and reaches nothing.
_SANDBOX = {
    "content-security-policy": "sandbox allow-scripts; default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}
_CACHED = {"cache-control": "private, max-age=3600"}


_Text = Annotated[str, Body(max_length=4000)]


def door_routes(door: Door) -> list[APIRouter]:
    """Return the routes of the page and of its actions."""
    return [_page_routes(door), _search_routes(door)]


def _page_routes(door: Door) -> APIRouter:
    routes = APIRouter()

    @routes.get("/door")
    def page() -> Response:
        return HTMLResponse(door.render())

    @routes.get("/door/page/{key}")
    def shown_page(key: str) -> Response:
        listed = next((one for one in door.read_index().list_pages() if one.key == key), None)
        if listed is None or not listed.path.is_file():
            raise HTTPException(404, "no such page")
        if listed.path.suffix == ".md":
            return PlainTextResponse(listed.path.read_text("utf-8"))
        return HTMLResponse(read_shown_page(listed, None), headers=_SANDBOX)

    @routes.get("/door/set/{key}")
    def set_page(key: str) -> Response:
        if (found := door.find_set(key)) is None:
            raise HTTPException(404, "no such set")
        return HTMLResponse(read_shown_page(found.page, found), headers=_SANDBOX)

    @routes.get("/door/sheet/{key}")
    def sheet(key: str) -> Response:
        found = door.find_set(key)
        if found is None or (jpeg := make_sheet(found)) is None:
            raise HTTPException(404, "no image available")
        return Response(jpeg, media_type="image/jpeg", headers=_CACHED)

    @routes.get("/door/photo/{side}/{name:path}")
    def photo(side: int, name: str) -> Response:
        index = door.read_index()
        path = normalise_path(door.find_photo_folder(index) / name)
        if side not in IMAGE_SIDES or path not in map(normalise_path, index.photos):
            raise HTTPException(404, "no such photo")
        (jpeg,) = map_in_workers(run_thumbnail_job, [ThumbnailJob(path, side)], THUMBNAIL_LIMITS)
        if not isinstance(jpeg, bytes):
            raise HTTPException(404, "cannot be shown")
        return Response(jpeg, media_type="image/jpeg", headers=_CACHED)

    return routes


def _search_routes(door: Door) -> APIRouter:
    routes = APIRouter()

    @routes.post("/api/door/search")
    def search(
        text: _Text, systems: Annotated[tuple[str, ...], Body(max_length=2)] = (), url: _Text = ""
    ) -> dict[str, object]:
        """Return the first results of one or two searches, with what is known of each; an address is described
        first, and comes before the others."""
        systems = tuple(dict.fromkeys((str(door.propose_system(url, text)), *systems)))[:2] if url else systems
        graded, stated = door.read_judgments(), door.read_stated_grades(text)
        answers = []
        for system in systems:
            hits, problem = [], ""
            try:
                for rank, hit in enumerate(door.search(system, text), 1):
                    grade = graded.get((text, hit.id), {}).get("grade")
                    is_photo = not hit.id.startswith(NO_IMAGE)
                    name = hit.id.removeprefix(NO_IMAGE)
                    known = {"grade": grade, "stated": stated.get(name), "is_photo": is_photo}
                    hits.append({"rank": rank, "name": name, **known})
            except UserError as error:
                problem = str(error)
            described = Path(system).read_text("utf-8") if url and system == systems[0] else ""
            about = {"system": system, "label": door.name_system(Path(system)), "described": described}
            answers.append({**about, "hits": hits, "problem": problem, "line": door.write_work("set", system)})
        return {"text": text, "answers": answers}

    @routes.post("/api/door/judge")
    def judge(text: _Text, image: _Text, grade: Annotated[Literal[0, 1] | None, Body()] = None) -> dict[str, str]:
        door.judge(text, image, grade)
        return {"saved": "yes"}

    @routes.get("/api/door/figure")
    def figure(system: str) -> dict[str, object]:
        return door.measure(system)

    @routes.post("/api/door/start")
    def start(work: Annotated[Literal["gallery", "set", "golden"], Body()], system: _Text = "") -> dict[str, object]:
        if work == "golden":
            return {"written": GOLDEN, "cases": door.write_golden(system)}
        photos = door.find_photo_folder(door.read_index())
        door.start(door.list_work(photos, system)[work])
        return {}

    @routes.get("/api/door/jobs")
    def jobs() -> dict[str, object]:
        return {"jobs": [{"lines": list(one.lines), "state": one.state} for one in door.jobs]}

    @routes.post("/api/door/file")
    async def file(request: Request, name: str) -> dict[str, object]:
        data = await request.body()
        with TemporaryDirectory() as folder:
            path = Path(folder) / Path(name).name
            path.write_bytes(data)
            photos = door.find_photo_folder(door.read_index())
            what, lines = await run_in_threadpool(recognise_file, path, photos)
        return {"what": what, "lines": lines}

    return routes


class ReviewMount:
    """The review pages of all sets below a folder, each opened when it is first asked for: /review/KEY/queries."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._sites: dict[Path, ASGIApp] = {}
        self._lock = Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the set's own pages, as if these were alone."""
        key, _, rest = str(scope["path"]).removeprefix("/review/").partition("/")
        try:
            site = await run_in_threadpool(self._open, key)
        except UserError as error:
            site = PlainTextResponse(str(error), 409)
        with page_below(f"/review/{key}"):
            await site({**scope, "path": f"/{rest}", "raw_path": f"/{rest}".encode(), "root_path": ""}, receive, send)

    def _open(self, key: str) -> ASGIApp:
        from flows.review_site import open_review_site
        from querytruth.sets.set_files import read_set

        found = self._door.find_set(key)
        if found is None:
            return PlainTextResponse("no such set", 404)
        with self._lock:
            if found.version not in self._sites:
                made = open_review_site(read_set(found.version), self._door.reviewer)
                with suppress(RuntimeError):
                    made.prepare()
                self._sites[found.version] = build_site(made.routes, made.start_path)
            return self._sites[found.version]
