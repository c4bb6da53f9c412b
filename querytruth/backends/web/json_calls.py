"""Calls of a JSON service: headers with secrets from the environment, a deadline, and a code for each failure."""

import json
import re
import time
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any
from urllib.parse import parse_qsl, urljoin, urlsplit

from urllib3.filepost import encode_multipart_formdata

from querytruth.backends.plugins import read_secret
from querytruth.backends.search_systems import SEARCH_SYSTEMS, SearchFailure
from querytruth.backends.web.host_rules import retry_after
from querytruth.backends.web.timed_http import HttpCallError, HttpResponse, TimedHttp, parse_address
from querytruth.errors import Redaction, UserError

_MAX_BYTES = 16 << 20
_SECRET_NAME = re.compile(r".*(authorization|cookie|secret|password|token|api[-_]?key).*|key", re.I)
_RETRIED = frozenset({408, 425, 429})
_MAX_DETAIL = 200  # characters
_MOST_REDIRECTS = 3


class JsonService:
    """A service at an address. `header_env`: by header the environment variable with its value; it is read at the first
    call, so that recorded answers are read without it."""

    def __init__(
        self, headers: Mapping[str, str], header_env: Mapping[str, str], *, connections: int, deadline: float
    ) -> None:
        refuse_secret_names("headers", headers)
        self._given, self._header_env, self._deadline = headers, header_env, deadline
        self._http = TimedHttp(connections=connections, max_bytes=_MAX_BYTES)

    @cached_property
    def _secrets(self) -> dict[str, str]:
        return {name: read_secret(variable, SEARCH_SYSTEMS.stage) for name, variable in self._header_env.items()}

    @cached_property
    def _redaction(self) -> Redaction:
        parts = [part for value in self._secrets.values() for part in (value, value.partition(" ")[2]) if part]
        return Redaction(parts)

    def call(self, method: str, url: str, body: Any = None, file: tuple[str, bytes] | None = None) -> Any:
        """Return the JSON of one answer. `file`: the name and the bytes of an image that is sent as a part of a form,
        beside the texts of `body`. Raises SearchFailure."""
        headers = {"Accept": "application/json", "User-Agent": "querytruth", **self._given, **self._secrets}
        data = b""
        if file is not None:
            (name, image), fields = file, {key: str(value) for key, value in (body or {}).items()}
            data, kind = encode_multipart_formdata({**fields, name: ("image", image, "application/octet-stream")})
            headers = {"Content-Type": kind, **headers}
        elif body is not None:
            data, headers = json.dumps(body).encode(), {"Content-Type": "application/json", **headers}
        ends, here = time.monotonic() + self._deadline, url
        try:
            for _ in range(_MOST_REDIRECTS + 1):
                answer = self._http.request(method, here, data, headers, (self._deadline, self._deadline), ends)
                if (there := _find_redirect(method, here, answer)) is None:
                    break
                here = there
        except HttpCallError as failed:
            reason = "timeout" if failed.reason in ("deadline", "timeout") else failed.reason
            pause = 0.0 if reason in ("timeout", "connection_failed") else None
            detail = f"{failed.detail} at {urlsplit(here).netloc.rpartition('@')[2]}"
            raise SearchFailure(reason, self._redaction(detail), pause) from None
        return self._read(answer)

    def _read(self, answer: HttpResponse) -> Any:
        if "location" in answer.headers and 300 <= answer.status < 400:
            detail = self._redaction(f"redirects to {answer.headers['location']}")[:_MAX_DETAIL]
            raise SearchFailure(f"http_{answer.status}", detail)
        if answer.status != 200:
            is_retried = answer.status in _RETRIED or answer.status >= 500
            pause = (retry_after(answer.headers) or 0.0) if is_retried else None
            raise SearchFailure(f"http_{answer.status}", self._excerpt(answer.body), pause)
        try:
            plain = json.loads(answer.body)
            return self._redact(plain) if self._secrets else plain
        except (ValueError, RecursionError):
            raise SearchFailure("not_json", self._excerpt(answer.body), 0.0) from None

    def _redact(self, value: object) -> Any:
        """Return a JSON value without the keys that were sent: a service may give them back as ids."""
        if isinstance(value, dict):
            return {self._redaction(key): self._redact(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self._redact(inner) for inner in value]
        return self._redaction(value) if isinstance(value, str) else value

    def _excerpt(self, body: bytes) -> str:
        return " ".join(self._redaction(body.decode("utf-8", "replace")).split())[:_MAX_DETAIL]


def _find_redirect(method: str, url: str, answer: HttpResponse) -> str | None:
    """Return the address of the same origin at which the same request is to be made; None for any other answer. The
    other origins get no key, and the other codes (of a POST) would not send the query again."""
    kept = {307, 308} if method == "POST" else {301, 302, 303, 307, 308}
    if answer.status not in kept or not answer.headers.get("location"):
        return None
    there = urljoin(url, answer.headers["location"])
    return there if urlsplit(there)[:2] == urlsplit(url)[:2] else None


def refuse_secret_names(option: str, names: Iterable[str]) -> None:
    """Raise UserError for the name of a header or parameter that holds a key."""
    if secret := next((name for name in names if _SECRET_NAME.fullmatch(name)), None):
        next_step = "give an environment variable under header_env"
        raise UserError(SEARCH_SYSTEMS.stage, f"{option}: {secret}", "would store a key in a file", next_step)


def check_service_url(url: str) -> None:
    """Raise UserError for an address that is not http or could contain a key."""
    if (parts := parse_address(url)) is None:
        raise UserError(SEARCH_SYSTEMS.stage, "url", "is not an http address", "write it as http://host:8000/search")
    if "@" in parts.netloc or any(_SECRET_NAME.fullmatch(name) for name, _ in parse_qsl(parts.query)):
        reason = "contains a password or a key, which would be recorded"
        raise UserError(SEARCH_SYSTEMS.stage, "url", reason, "put it into an environment variable, under header_env")
