"""A search function as an HTTP service on 127.0.0.1, so that what asks a live service can be shown without one."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@contextmanager
def serve_search(search: Callable[[str, int], list[tuple[str, float]]]) -> Iterator[str]:
    """Serves `GET /search?q=TEXT&size=K` on a free port during the block and yields its address; the answer is JSON:
    {"hits": [{"file": name, "score": number}, …]}."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _make_handler(search))
    server.daemon_threads, server.block_on_close = True, False
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/search"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _make_handler(search: Callable[[str, int], list[tuple[str, float]]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            asked = parse_qs(urlsplit(self.path).query)
            try:
                text, k = asked["q"][0], int(asked["size"][0])
            except (KeyError, ValueError):
                self._send(400, {"error": "ask for ?q=TEXT&size=K"})
                return
            self._send(200, {"hits": [{"file": name, "score": score} for name, score in search(text, k)]})

        def _send(self, status: int, answer: dict[str, Any]) -> None:
            data = json.dumps(answer).encode()
            with suppress(OSError):  # whoever has hung up needs no answer
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Logs nothing."""

    return Handler
