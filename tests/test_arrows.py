"""Who may import whom: every arrow points downward, and the heavy libraries stay where they belong."""

import ast
import functools
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("querytruth", "flows", "sample_album", "builders", "backends", "evaluation", "baselines", "prompts", "review")
ALLOWED = {
    "querytruth": set(ROOMS),
    "flows": set(ROOMS) - {"querytruth"},
    "backends": {"builders"},
    "sample_album": {"builders"},
    "builders": {"prompts"},
    "review": {"builders", "evaluation"},
    "evaluation": {"builders"},
    "baselines": {"builders"},
    "prompts": set(),
}
# What a checkpoint holds is rebuilt by the code that trained it.
ALLOWED_BESIDES = {"backends/embedders/dual_encoder.py": {"baselines"}}
FORBIDDEN_IN_BUILDERS = {"prefect", "torch", "requests", "pyarrow.parquet", "urllib", "socket", "sqlalchemy"}


@functools.cache
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text("utf-8"))))


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module or "")
    return found


def imported_files(path: Path) -> set[Path]:
    """Our own files that a file imports, anywhere in it: inside functions and for type checkers, too."""
    found: set[Path | None] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {file_of(alias.name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {file_of(f"{node.module}.{alias.name}") or file_of(node.module) for alias in node.names}
    return {file for file in found if file is not None}


def file_of(module: str) -> Path | None:
    """The file of one of our modules; None for a name inside of one, and for other people's."""
    place = ROOT / module.replace(".", "/")
    files = (place.with_suffix(".py"), place / "__init__.py")
    return next((file for file in files if module.split(".")[0] in ROOMS and file.is_file()), None)


def files(room: str) -> list[Path]:
    return sorted((ROOT / room).rglob("*.py"))


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_what_lies_below_it(room: str) -> None:
    assert files(room), f"{room} is empty"
    for path in files(room):
        allowed = ALLOWED[room] | ALLOWED_BESIDES.get(str(path.relative_to(ROOT)), set())
        for name in imports(path):
            top = name.split(".")[0]
            if top in ROOMS and top != room:
                assert top in allowed, f"{path.relative_to(ROOT)} imports {name}"


def test_no_two_files_import_each_other_not_even_around_a_corner() -> None:
    graph = {path: imported_files(path) for room in ROOMS for path in files(room)}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle = " <- ".join(str(path.relative_to(ROOT)) for path in error.args[1])
        pytest.fail(f"a circle of imports: {circle}")


def test_only_the_engine_knows_prefect() -> None:
    knows = {
        str(p.relative_to(ROOT))
        for room in ROOMS
        for p in files(room)
        if any(n.split(".")[0] == "prefect" for n in imports(p))
    }
    allowed = ("flows/prefect_engine.py", "flows/prefect_runs/")
    assert knows and all(name.startswith(allowed) for name in knows), knows


# The album is data beside its code: one function reads them, and checks each against its digest.
READS_OWN_DATA = ROOT / "sample_album" / "album.py"
FILE_ACCESS = {"open", "read_bytes", "read_text", "write_bytes", "write_text"}


def test_builders_and_figures_touch_no_file_no_socket_no_model() -> None:
    for path in [file for room in ("builders", "sample_album", "evaluation", "baselines") for file in files(room)]:
        # A model that is trained is made of torch; baselines/dual_encoder gets and gives tensors alone.
        beside = {"torch"} if path.is_relative_to(ROOT / "baselines" / "dual_encoder") else set()
        assert not imports(path) & FORBIDDEN_IN_BUILDERS - beside, path
        called = [node.func for node in nodes(path) if isinstance(node, ast.Call)]
        names = {getattr(function, "id", getattr(function, "attr", "")) for function in called}
        allowed = {"read_bytes", "read_text"} if path == READS_OWN_DATA else set()
        assert not names & FILE_ACCESS - allowed, path


def test_no_python_lies_in_datasets() -> None:
    """A package there would shadow Hugging Face's `datasets`."""
    assert not list((ROOT / "datasets").rglob("*.py"))
