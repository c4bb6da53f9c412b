"""An S3 service on 127.0.0.1 (moto's), which fails where a test wants it to."""

import os
import socket
import threading
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

SECRET_KEY = "the-secret-key-of-the-tests"
Answer = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
Fault = Callable[["ObjectService", dict[str, Any], Callable[..., Any]], Iterable[bytes]]


@dataclass
class ObjectService:
    """The running service. `fault_of(method, key, number)` names what a request suffers, None: nothing; `number` counts
    the requests of a method for a key from 1. `asked`: method and key of every request; `askers`: whose they were, by
    the id of their access key."""

    app: Answer
    port: int = 0
    bucket: str = field(default_factory=lambda: f"sets-{uuid.uuid4().hex[:12]}")
    fault_of: Callable[[str, str, int], Fault | None] = lambda _method, _key, _number: None
    asked: list[tuple[str, str]] = field(default_factory=list)
    askers: list[str] = field(default_factory=list)
    lock: Any = field(default_factory=threading.Lock)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """A folder for sets."""
        return f"s3://{self.bucket}/sets"

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        method, key = environ["REQUEST_METHOD"], environ["PATH_INFO"].removeprefix(f"/{self.bucket}").lstrip("/")
        if environ.get("HTTP_X_OF_THE_TEST"):
            return self.app(environ, start_response)
        with self.lock:
            self.asked.append((method, key))
            self.askers.append(find_asker(environ))
            number = self.asked.count((method, key))
        if fault := self.fault_of(method, key, number):
            return fault(self, environ, start_response)
        if "HTTP_IF_NONE_MATCH" in environ or "HTTP_IF_MATCH" in environ:
            with self.lock:  # the condition and the write are one step
                return self.app(environ, start_response)
        return self.app(environ, start_response)

    def ask(self, method: str, key: str = "", body: bytes | None = None) -> bytes:
        """Looks into the bucket, or changes it, behind the backs of its users."""
        signed = "AWS4-HMAC-SHA256 Credential=of-the-tests/20260101/us-east-1/s3/aws4_request"
        headers = {"x-of-the-test": "1", "Content-Type": "application/octet-stream", "Authorization": signed}
        request = urllib.request.Request(f"{self.endpoint}/{self.bucket}/{key}", body, headers, method=method)
        with urllib.request.urlopen(request) as answer:
            data: bytes = answer.read()
        return data

    def list_keys(self) -> list[str]:
        """The keys of all objects (at most a thousand)."""
        listed = self.ask("GET", "?list-type=2").decode()
        return [part.partition("</Key>")[0] for part in listed.split("<Key>")[1:]]


def find_asker(environ: dict[str, Any]) -> str:
    """The id of the access key of a request."""
    return str(environ.get("HTTP_AUTHORIZATION", "")).partition("Credential=")[2].partition("/")[0]


def busy(_service: ObjectService, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer 503."""
    environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    start_response("503 Service Unavailable", [("Content-Type", "application/xml")])
    return [b"<Error><Code>ServiceUnavailable</Code><Message>try later</Message></Error>"]


def cut(_service: ObjectService, environ: dict[str, Any], _start: Callable[..., Any]) -> Iterable[bytes]:
    """Close the connection without an answer."""
    return _hang_up(environ)


def cut_in_the_middle(service: ObjectService, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
    """Send half of the body, then closes the connection."""
    data = b"".join(service.app(environ, start))
    return [data[: len(data) // 2]]


def forget_to_answer(service: ObjectService, environ: dict[str, Any], _start: Callable[..., Any]) -> Iterable[bytes]:
    """Does what is asked, then closes the connection without an answer."""
    list(service.app(environ, lambda *_arguments: None))
    return _hang_up(environ)


def _hang_up(environ: dict[str, Any]) -> Iterable[bytes]:
    environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
    raise ConnectionAbortedError("for the test")


def pretend(_service: ObjectService, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
    """Confirms a write that it does not do."""
    environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    start("200 OK", [("ETag", '"0"')])
    return []


def ignore_condition(service: ObjectService, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
    """Writes, whatever the condition."""
    for header in ("HTTP_IF_NONE_MATCH", "HTTP_IF_MATCH"):
        environ.pop(header, None)
    return service.app(environ, start)


@contextmanager
def serve_objects() -> Iterator[ObjectService]:
    """Run the service, with an empty bucket."""
    server_module = pytest.importorskip("moto.server")
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        def log(self, *_arguments: Any) -> None:
            pass

    service = ObjectService(server_module.DomainDispatcherApplication(server_module.create_backend_app))
    server = make_server("127.0.0.1", 0, service, threaded=True, request_handler=Quiet)
    service.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        service.ask("PUT")
        yield service
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def object_environment(service: ObjectService, folder: Path) -> dict[str, str]:
    """The variables by which a process reaches the service and keeps its cache below a folder."""
    return {
        "AWS_ENDPOINT_URL": service.endpoint,
        "AWS_ACCESS_KEY_ID": "of-the-tests",
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
        "XDG_CACHE_HOME": str(folder / "cache"),
        "NO_PROXY": "127.0.0.1",
    }
