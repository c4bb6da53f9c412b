"""The page as an ASGI application, guarded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles
from starlette.types import ASGIApp

from builders.errors import UserError
from review.saying import Refused
from review.server.caption_views import CaptionDesk, caption_routes
from review.server.desk import Desk
from review.server.guards import Door, Guard
from review.server.pools import PoolDesk, pool_routes
from review.server.views import data_routes, file_routes, page_routes

_STATIC = Path(__file__).parents[1] / "static"


def application(
    desk: Desk | CaptionDesk | PoolDesk, door: Door, about: dict[str, Any], more: Sequence[APIRouter] = ()
) -> ASGIApp:
    """All routes behind the guard: those of judging, of captioning a gallery, or of a table of topics or objects.
    `about` has name, version, title, reviewer, grades and the names of the views."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    if isinstance(desk, CaptionDesk):
        app.include_router(caption_routes(desk, about))
    elif isinstance(desk, PoolDesk):
        app.include_router(pool_routes(desk, about))
    else:
        for routes in (page_routes(desk, about), data_routes(desk), file_routes(desk, about["name"])):
            app.include_router(routes)
    for routes in more:
        app.include_router(routes)
    app.mount("/static", StaticFiles(directory=_STATIC))
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(UserError, _failed)
    app.add_exception_handler(RequestValidationError, _not_understood)
    return Guard(app, door)


def _refused(_request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"error": str(error)}, 409)


def _failed(_request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"error": str(error)}, 500)


def _not_understood(_request: Request, error: Exception) -> JSONResponse:
    """Names the field, never repeats what was sent."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    return JSONResponse({"error": f"{'.'.join(map(str, first['loc']))}: {first['msg']}"}, 422)
