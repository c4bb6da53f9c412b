"""The page as an ASGI application, guarded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles
from starlette.types import ASGIApp

from builders.errors import UserError
from review.actions import ActionError
from review.server.guards import AccessMiddleware, PageAccess

_STATIC = Path(__file__).parents[1] / "static"


def create_app(routes: Sequence[APIRouter], access: PageAccess) -> ASGIApp:
    """The routes of the views and what their pages are made of, behind the guard."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    for of_a_view in routes:
        app.include_router(of_a_view)
    app.mount("/static", StaticFiles(directory=_STATIC))
    app.add_exception_handler(ActionError, _handle_action_error)
    app.add_exception_handler(UserError, _handle_user_error)
    app.add_exception_handler(RequestValidationError, _handle_validation_error)
    return AccessMiddleware(app, access)


def _handle_action_error(_request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"error": str(error)}, 409)


def _handle_user_error(_request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"error": str(error)}, 500)


def _handle_validation_error(_request: Request, error: Exception) -> JSONResponse:
    """Names the field, never repeats what was sent."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    return JSONResponse({"error": f"{'.'.join(map(str, first['loc']))}: {first['msg']}"}, 422)
