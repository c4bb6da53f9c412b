"""The locks: whole, hashed, without an address, and what pyproject.toml, the Makefile and `querytruth doctor` say."""

import importlib.util
import os
import re
import subprocess
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from querytruth.backends.environment import LibraryVersion, describe_newer, read_library_versions

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
LOCKS = ("run", "dev", "uv")


@pytest.fixture(scope="module")
def environment() -> ModuleType:
    spec = importlib.util.spec_from_file_location("environment", ROOT / "locks" / "environment.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read_locked(name: str) -> list[tuple[Requirement, list[str]]]:
    """The requirements of a lock, each with its hashes."""
    text = (ROOT / "locks" / f"{name}.txt").read_text("utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
    return [(Requirement(line.split(" --hash")[0]), re.findall(r"--hash=(\S+)", line)) for line in lines]


@pytest.mark.parametrize("name", LOCKS)
def test_each_package_has_one_version_and_the_hashes_of_its_files(name: str) -> None:
    for requirement, hashes in read_locked(name):
        assert re.fullmatch(r"==[^,*]+", str(requirement.specifier)), requirement
        assert hashes and all(re.fullmatch(r"sha256:[0-9a-f]{64}", one) for one in hashes), requirement
    assert "torch" not in {requirement.name for requirement, _ in read_locked(name)}, "each machine needs another build"


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_names_no_address(name: str) -> None:
    assert "://" not in (ROOT / "locks" / f"{name}.txt").read_text("utf-8")


def test_who_runs_the_tests_has_what_who_runs_the_demo_has() -> None:
    run, dev = ({(one.name, str(one.specifier)) for one, _hashes in read_locked(name)} for name in ("run", "dev"))
    assert run - dev == set()


@pytest.mark.parametrize(
    ("lock", "names"),
    [("run", [*PROJECT["dependencies"], *EXTRAS["postgres"]]), ("dev", [*PROJECT["dependencies"], *EXTRAS["dev"]])],
)
def test_what_the_project_asks_for_is_locked_within_its_range(lock: str, names: list[str]) -> None:
    locked: dict[str, list[str]] = {}
    for requirement, _hashes in read_locked(lock):
        locked.setdefault(requirement.name, []).append(next(iter(requirement.specifier)).version)
    for wanted in map(Requirement, names):
        name = re.sub(r"[-_.]+", "-", wanted.name).lower()
        if name != "torch":
            assert name in locked, f"{name}: run `make lock`"
            assert all(version in wanted.specifier for version in locked[name]), f"{name}: run `make lock`"


def test_every_range_of_the_wheel_ends_at_what_was_tested() -> None:
    """No release of a new kind is let in unseen: the end is at most the next major version after the locked one."""
    tested = {one.name.lower(): one.tested for one in read_library_versions()}
    extras = [one for extra, names in EXTRAS.items() if extra not in ("dev", "bench") for one in names]
    for wanted in map(Requirement, [*PROJECT["dependencies"], *extras]):
        name = re.sub(r"[-_.]+", "-", wanted.name).lower()
        if name == "certifi":  # certificates, which are never too new
            continue
        ends = [Version(one.version) for one in wanted.specifier if one.operator in ("<", "==")]
        assert ends, f"{name} has no upper end"
        assert ends[0].major <= Version(tested[name]).major + 1, f"{name} {tested[name]} was tested"


def test_the_tested_versions_of_the_wheel_are_the_locked_ones(
    environment: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    (torch,) = re.findall(r"^export TORCH \?= (\S+)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    monkeypatch.setenv("TORCH", torch)
    assert environment.TESTED.read_text("utf-8") == environment.list_tested(), "run `make lock`"
    assert any(one.name == "transformers" for one in read_library_versions())


@pytest.mark.parametrize(
    ("installed", "state"),
    [("2.13.0", "tested"), ("2.13.0+cpu", "tested"), ("2.13.1", "newer"), ("2.9", "older"), (None, "missing")],
)
def test_a_library_is_compared_by_release_not_by_build(installed: str | None, state: str) -> None:
    assert LibraryVersion("torch", installed, "2.13.0").state == state


def test_what_is_newer_than_tested_is_named_with_both_versions() -> None:
    line = describe_newer([LibraryVersion("transformers", "5.25.0", "5.24.0"), LibraryVersion("rich", "15", "15.0.0")])
    assert line == "newer than tested: transformers 5.25.0 (tested: 5.24.0)"


def test_uv_finds_what_pip_was_told_to_find(environment: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index that a company or a country's mirror set for pip is the index of uv; a variable wins over a file."""
    listed = (
        ":env:.index-url='https://mirror.example/simple'\n"
        "global.extra-index-url='https://a.example/simple https://b.example/simple'\n"
        "global.find-links='/wheels\\n/more'\nglobal.index-url='https://file.example/simple'\nglobal.timeout='60'\n"
    )
    done = subprocess.CompletedProcess([], 0, stdout=listed)
    monkeypatch.setattr(subprocess, "run", lambda *_words, **_options: done)
    assert environment.uv_settings({}) == {
        "UV_DEFAULT_INDEX": "https://mirror.example/simple",
        "UV_INDEX": "https://a.example/simple https://b.example/simple",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_FIND_LINKS": "/wheels,/more",
    }
    assert "UV_DEFAULT_INDEX" not in environment.uv_settings({"UV_DEFAULT_INDEX": "https://own.example/simple"})


def test_where_uv_cannot_be_had_pip_installs(
    environment: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = subprocess.CompletedProcess([], 1, stdout="", stderr="ERROR: No matching distribution found for uv")
    monkeypatch.setattr(subprocess, "run", lambda *_words, **_options: failed)
    assert environment.choose_installer()[1:3] == ["-m", "pip"]
    assert "No matching distribution found for uv" in capsys.readouterr().err


def test_make_installs_by_the_locks_alone(tmp_path: Path) -> None:
    """What a newcomer's two commands install, by what make would do in a folder where nothing is installed."""
    for target, lock in (("demo", "run"), ("test", "dev")):
        command = ["make", "--dry-run", target, f"VENV={tmp_path}"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env={"PATH": os.environ["PATH"]})
        assert done.returncode == 0, done.stderr
        installs = [line for line in done.stdout.splitlines() if "environment.py" in line or "pip install" in line]
        assert installs == [f"{tmp_path}/bin/python locks/environment.py locks/{lock}.txt"]
