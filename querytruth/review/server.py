"""The review page as an ASGI application: only the browser that has the token comes in, from the page itself, with
bodies of limited size. Images are read by id, and no other file."""

import hmac
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from fastapi import APIRouter, FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from querytruth.errors import UserError
from querytruth.review.deck import ActionError
from querytruth.review.page_parts import page_base, pages_in, translate

MAX_BODY_BYTES = 256 << 10  # bytes of a decision
MAX_UPLOAD_BYTES = 64 << 20  # bytes of a filled-in CSV or an image
UPLOAD_PATHS = ("/api/csv", "/api/finder/file", "/api/door/file")
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
_HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
_CONTENT_TYPES = ("application/json", "application/octet-stream")  # neither can be sent by a form of another site
_LANGUAGE_COOKIE, _YEAR = "querytruth_language", 365 * 86400
_STATIC = Path(__file__).parent / "static"
IMAGE_SIDES = (320, 1280)  # pixels of the longer side: in a grid, and alone
ImageLoader = Callable[[str, int], bytes | None]


@dataclass(frozen=True, slots=True)
class PageAccess:
    """The checks of a request: its Host must be the page's, and it needs the token, first in the URL and then in a
    cookie. `host`: the name or address at which the page is served, loopback by default."""

    port: int
    token: str
    host: str = "127.0.0.1"

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the allowed values of Host, against DNS rebinding."""
        return self._served_at, f"127.0.0.1:{self.port}", f"localhost:{self.port}"

    @property
    def _served_at(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host.lower()
        return f"{host}:{self.port}"

    @property
    def cookie(self) -> str:
        """Return the name of the cookie, with the port: all ports of a host share cookies."""
        return f"querytruth_{self.port}"

    @property
    def url(self) -> str:
        """Return the address for the browser."""
        return f"http://{self._served_at}/?token={self.token}"


class AccessMiddleware:
    """Rejects requests before the page handles them, and large bodies while they arrive."""

    def __init__(self, app: ASGIApp, access: PageAccess) -> None:
        self.app, self.access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass HTTP requests that have access; close web sockets."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        limited = _Limited(receive, MAX_UPLOAD_BYTES if scope["path"].endswith(UPLOAD_PATHS) else MAX_BODY_BYTES)
        with pages_in(_choose_language(Headers(scope=scope))):
            answer = self._check_request(scope)
            await (answer or self.app)(scope, limited, _with_headers(send))

    def _check_request(self, scope: Scope) -> Response | None:
        """Return the response to a rejected request or to one with the token, None for one that may pass."""
        headers = Headers(scope=scope)
        if len(hosts := headers.getlist("host")) != 1 or hosts[0].lower() not in self.access.hosts:
            return _forbidden("this host name is not the page's")
        if not _is_from_the_page(scope["method"], headers):
            return _forbidden("this request does not come from the page")
        query = parse_qs(scope["query_string"].decode("latin-1"))
        given = query.get("token", [""])[0]
        if scope["path"] == "/" and self._is_token(given):
            return self._set_cookie()
        if not self._is_token(_cookie(headers, self.access.cookie)):
            return _forbidden("open the page with the address that the terminal shows")
        if (language := query.get("page_language", [""])[0]) in ("en", "zh"):
            chosen = RedirectResponse(scope["path"], 303)
            chosen.set_cookie(_LANGUAGE_COOKIE, language, httponly=True, samesite="strict", max_age=_YEAR)
            return chosen
        if scope["method"] == "POST" and headers.get("content-type", "").partition(";")[0] not in _CONTENT_TYPES:
            return PlainTextResponse(translate("this content type is not accepted"), 415)
        size = headers.get("content-length", "0")
        limit = MAX_UPLOAD_BYTES if scope["path"].endswith(UPLOAD_PATHS) else MAX_BODY_BYTES
        if not size.isdecimal() or int(size[:20]) > limit:
            return PlainTextResponse(translate("the body is too large"), 413)
        return None

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.access.token.encode())

    def _set_cookie(self) -> Response:
        """Move the token from the address, which browsers store, into a cookie that no other site can send."""
        answer = RedirectResponse("/", 303)
        answer.set_cookie(self.access.cookie, self.access.token, httponly=True, samesite="strict")
        return answer


def _is_from_the_page(method: str, headers: Headers) -> bool:
    """Return whether a request is a top-level GET, as from a terminal, or comes from the page's own origin. Other
    sites, and other ports of this host, cannot embed the page."""
    site, host = headers.get("sec-fetch-site"), headers.get("host", "")
    opened = method == "GET" and headers.get("sec-fetch-mode") == "navigate"
    if site not in (None, "same-origin", "none") and not opened:
        return False
    origin = headers.get("origin")
    return origin == f"http://{host}" if method not in ("GET", "HEAD") or origin is not None else True


def _cookie(headers: Headers, name: str) -> str:
    try:
        morsel = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return morsel.value if morsel is not None else ""


def _choose_language(headers: Headers) -> str:
    """Return the language that the person chose, else Chinese for a browser that prefers it."""
    chosen = _cookie(headers, _LANGUAGE_COOKIE) or headers.get("accept-language", "").strip().lower()[:2]
    return "zh" if chosen == "zh" else "en"


def _forbidden(why: str) -> Response:
    return PlainTextResponse(translate(why), 403)


class _Limited:
    """Receives a body up to a limit, whatever its content-length. Raises HTTPException 413 above it."""

    def __init__(self, receive: Receive, limit: int) -> None:
        self._receive, self._left = receive, limit

    async def __call__(self) -> Message:
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise HTTPException(413, "the body is too large")
        return message


def _with_headers(send: Send) -> Send:
    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in {**_HEADERS, "cache-control": "no-store"}.items():
                headers.setdefault(name, value)
        await send(message)

    return sending


def create_app(
    routes: Sequence[APIRouter], access: PageAccess, start_path: str, inside: ASGIApp | None = None
) -> ASGIApp:
    """Return the application: the routes of the views and the static files, behind the access check. It opens at
    `start_path`; `inside` has the pages of sets, below /review."""
    return AccessMiddleware(build_site(routes, start_path, inside), access)


def build_site(routes: Sequence[APIRouter], start_path: str, inside: ASGIApp | None = None) -> FastAPI:
    """Return the application without the access check."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    for view_routes in routes:
        app.include_router(view_routes)

    @app.get("/")
    def start() -> Response:
        return RedirectResponse(page_base() + start_path, 303)

    if inside is not None:
        app.mount("/review", inside)
    app.mount("/static", StaticFiles(directory=_STATIC))
    app.add_exception_handler(ActionError, _handle_error)
    app.add_exception_handler(UserError, _handle_error)
    app.add_exception_handler(RequestValidationError, _handle_validation_error)
    return app


def _handle_error(_request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"error": str(error)}, 409 if isinstance(error, ActionError) else 500)


def _handle_validation_error(_request: Request, error: Exception) -> JSONResponse:
    """Name the field, but never repeat the value."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    return JSONResponse({"error": f"{'.'.join(map(str, first['loc']))}: {first['msg']}"}, 422)


def image_routes(path: str, is_known: Callable[[str], bool], load_image: ImageLoader) -> APIRouter:
    """Return the route of the JPEGs below `path`, such as /image; `load_image` returns one by id and longer side in
    pixels, or None."""
    routes = APIRouter()

    @routes.get(path + "/{side}/{image_id}")
    def one(side: int, image_id: str) -> Response:
        jpeg = load_image(image_id, side) if side in IMAGE_SIDES and is_known(image_id) else None
        if jpeg is None:
            raise HTTPException(404, "unknown image")
        return Response(jpeg, media_type="image/jpeg", headers={"cache-control": "private, max-age=3600"})

    return routes
