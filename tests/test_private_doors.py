"""Private names of libraries: none is used but those below, each with a reason, and each may go without a crash.

A name is private if it begins with an underscore and this project does not define it, or lies in a module that its
library does not document. A release that renames one breaks no build, as long as these tests hold.
"""

import ast
import logging
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from PIL import Image

from flows.prefect_runs import one_off_run as own_server
from querytruth.backends.images import image_decoding
from querytruth.backends.web import timed_http
from tests.loopback import CannedResponse, loopback
from tests.source_files import PACKAGES, ROOT, files, name_of, nodes

FOLDERS = (*PACKAGES, "benchmarks", "tests")
UNDOCUMENTED = (
    *("transformers.cache_utils", "transformers.generation", "transformers.modeling_utils", "prefect.cli"),
    *("prefect.events.worker", "prefect.settings.legacy", "prefect.server.services", "fastapi.dependencies"),
    *("pyarrow.lib", "pandas.core", "sqlalchemy.util", "requests.packages", "pydantic.v1", "numpy.core"),
    *("distributed.protocol", "cyclopts.core"),
)
ALLOWED = {
    ("querytruth/backends/images/image_decoding.py", "_open"): "Pillow documents it for readers of formats",
    (
        "querytruth/backends/images/image_decoding.py",
        "_read_dpi_from_exif",
    ): "saves the parsing of EXIF; else Pillow parses it",
    ("querytruth/backends/web/timed_http.py", "_new_conn"): "the place between the connection and the handshake of TLS",
    ("flows/prefect_runs/one_off_run.py", "prefect.events.worker.EventsWorker"): "ends Prefect's client of events",
    ("flows/prefect_runs/plugin.py", "prefect.cli._app._app"): "adds `prefect run`; test_plugin.py",
    ("tests/flows/prefect_runs/test_plugin.py", "prefect.cli._app._app"): "takes that name away",
    ("tests/backends/images/test_image_decoding.py", "PIL._webp.WebPAnimDecoder"): "patched only where it is there",
    **{
        ("tests/evaluation/other_evaluators.py", f"mteb._evaluators.retrieval_metrics{name}"): "run beside ours"
        for name in ("", ".calculate_retrieval_scores", ".make_score_dict")  # its evaluator has no public name
    },
}
OF_NAMED_TUPLES = {"_asdict", "_fields", "_field_defaults", "_make", "_replace"}  # documented
OF_NOTEBOOKS = {"_repr_html_"}  # documented
OWN_BASES = {"msgspec", "pydantic"}  # whose classes only hold fields


@pytest.mark.thorough
def test_no_private_name_of_a_library_is_used_but_those_with_a_reason() -> None:
    sources = [path for folder in FOLDERS for path in files(folder)]
    assert set(find_private_names({name_of(path): nodes(path) for path in sources})) == set(ALLOWED)


@pytest.mark.parametrize(
    "text",
    [
        "from transformers.cache_utils import DynamicLayer",
        "import prefect.cli._app",
        "import torch\ntorch._dynamo.reset()",
        "import pandas as pd\npd.DataFrame()._mgr",
        "import cyclopts\ngetattr(cyclopts, '_core')",
        "from requests import Session\nclass Mine(Session):\n    def _send(self): ...",
        "def test(monkeypatch):\n    monkeypatch.setattr('fsspec.asyn._loop', None)",
    ],
)
def test_a_new_private_name_is_found(text: str) -> None:
    assert len(set(find_private_names({"builders/new.py": list(ast.walk(ast.parse(text)))}))) == 1


def test_names_of_this_project_and_documented_ones_are_not_taken_for_private() -> None:
    text = "import os\nclass One:\n    def __init__(self): self._x = 1\ndef use(o): return os._exit(o._x), o._replace()"
    assert set(find_private_names({"builders/new.py": list(ast.walk(ast.parse(text)))})) == set()


# ---- each of them may be gone


def test_a_call_ends_in_time_where_urllib3_connects_in_another_way(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def connect(self: Any) -> None:
        self.sock = socket.create_connection((self.host, self.port))

    monkeypatch.setattr("urllib3.connection.HTTPConnection.connect", connect)
    timed_http._report_late_watch.cache_clear()
    with loopback(lambda _asked: CannedResponse("whole")) as server:
        http = timed_http.TimedHttp(connections=2, max_bytes=1000)
        for _ in range(2):
            http.request("POST", server.url, b"{}", {}, (5, 5), timed_http.time.monotonic() + 30)
    assert [record.name for record in caplog.records if record.levelno == logging.WARNING] == [timed_http.__name__]


def test_prefects_client_of_events_may_be_another(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "prefect.events.worker", ModuleType("prefect.events.worker"))
    own_server._end_event_client()
    [line] = [record.getMessage() for record in caplog.records if record.name == own_server.__name__]
    assert "EventsWorker" in line


@pytest.mark.parametrize("name", ["_open", "_read_dpi_from_exif"])
def test_pillow_need_not_call_what_is_overridden(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    Image.new("RGB", (40, 30), "red").save(tmp_path / "a.jpg", dpi=(72, 72))
    monkeypatch.delattr(image_decoding._Jpeg, name)
    image, _ = image_decoding.open_limited("JPEG", (tmp_path / "a.jpg").read_bytes(), 10_000)
    image.load()
    assert image.size == (40, 30)


def find_private_names(sources: dict[str, list[ast.AST]]) -> Iterator[tuple[str, str]]:
    """Yield (file, name) of each private name of a library; `sources`: by file its nodes."""
    own = {name for parts in sources.values() for node in parts for name in defined_names(node)}
    own |= OF_NAMED_TUPLES | OF_NOTEBOOKS
    for file, parts in sources.items():
        libraries = {name: module for node in parts for name, module in imported_names(node)}
        for node in parts:
            for name in private_names(node, libraries, own):
                yield file, name


def defined_names(node: ast.AST) -> Iterator[str]:
    """The private names that a node of this project's code defines; a method that overrides a library's is none."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and root_name(node) in ("self", "cls"):
        yield node.attr


def imported_names(node: ast.AST) -> Iterator[tuple[str, str]]:
    """The names that an import of a library binds, each with what it stands for."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            if is_library(alias.name):
                yield alias.asname or alias.name.partition(".")[0], alias.name
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level and is_library(node.module):
        for alias in node.names:
            yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def private_names(node: ast.AST, libraries: dict[str, str], own: set[str]) -> Iterator[str]:
    for _, name in imported_names(node):
        if is_private_path(name):
            yield name
    if isinstance(node, ast.Attribute) and is_private(node.attr):
        root = root_name(node)
        if root in libraries or (root not in sys.stdlib_module_names and node.attr not in own):
            yield node.attr
    elif isinstance(node, ast.ClassDef):
        bases = {libraries.get(root_name(base) or "", "") for base in node.bases} - {""}
        if any(base.partition(".")[0] not in OWN_BASES for base in bases):
            for part in node.body:
                if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)) and is_private(part.name):
                    yield part.name
    elif isinstance(node, ast.Call):
        for argument in node.args[:2]:
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                yield from private_text(node, argument.value, own)


def private_text(call: ast.Call, text: str, own: set[str]) -> Iterator[str]:
    """A private name that is given as a text: getattr(x, "_y"), monkeypatch.setattr("library._y")."""
    called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if called not in ("getattr", "setattr", "hasattr", "delattr"):
        return
    if ("." in text and is_library(text) and is_private_path(text)) or (is_private(text) and text not in own):
        yield text


def root_name(node: ast.AST) -> str | None:
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


def is_private(name: str) -> bool:
    return name.startswith("_") and name.isidentifier() and not name.endswith("__") and name.strip("_") != ""


def is_private_path(path: str) -> bool:
    is_undocumented = any(f"{path}.".startswith(f"{module}.") for module in UNDOCUMENTED)
    return is_undocumented or any(is_private(part) for part in path.split("."))


def is_library(path: str) -> bool:
    top = path.partition(".")[0]
    is_own = top in FOLDERS or (ROOT / "benchmarks" / f"{top}.py").exists()
    return not is_own and top not in sys.stdlib_module_names
