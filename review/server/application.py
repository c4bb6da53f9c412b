"""The review page as an ASGI application."""

from collections.abc import Sequence
from pathlib import Path

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.types import ASGIApp

from builders.errors import UserError
from review.actions import ActionError
from review.server.guards import AccessMiddleware, PageAccess

_STATIC = Path(__file__).parents[1] / "static"


def create_app(routes: Sequence[APIRouter], access: PageAccess, start_path: str) -> ASGIApp:
    """Return the application: the routes of the views and the static files, behind the access check. It opens at
    `start_path`."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    for view_routes in routes:
        app.include_router(view_routes)

    @app.get("/")
    def start() -> Response:
        return RedirectResponse(start_path, 303)

    app.mount("/static", StaticFiles(directory=_STATIC))
    app.add_exception_handler(ActionError, _handle_error)
    app.add_exception_handler(UserError, _handle_error)
    app.add_exception_handler(RequestValidationError, _handle_validation_error)
    return AccessMiddleware(app, access)


def _handle_error(_request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"error": str(error)}, 409 if isinstance(error, ActionError) else 500)


def _handle_validation_error(_request: Request, error: Exception) -> JSONResponse:
    """Name the field, but never repeat the value."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    return JSONResponse({"error": f"{'.'.join(map(str, first['loc']))}: {first['msg']}"}, 422)
