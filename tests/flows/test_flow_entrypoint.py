"""A configured server is found where Prefect itself would look for it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from flows.flow_entrypoint import configured_server
from tests.command_runner import Ended, invoke
from tests.images import draw_scene


@pytest.fixture(autouse=True)
def empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PREFECT_API_URL", "PREFECT_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))


def test_no_server_is_configured_in_an_empty_home() -> None:
    assert configured_server() is None


def test_the_environment_counts_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:4200/api")
    assert configured_server() == "http://127.0.0.1:4200/api"


def test_the_active_profile_counts_and_another_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "profiles.toml").write_text(
        'active = "here"\n[profiles.here]\nPREFECT_API_URL = "http://here/api"\n[profiles.none]\n'
    )
    assert configured_server() == "http://here/api"
    monkeypatch.setenv("PREFECT_PROFILE", "none")
    assert configured_server() is None


def test_a_broken_profile_file_is_no_server(tmp_path: Path) -> None:
    (tmp_path / "profiles.toml").write_text("active = ")
    assert configured_server() is None


def build_gallery(tmp_path: Path, *options: str) -> Ended:
    draw_scene(1).save(tmp_path / "a.png")
    keys = ["--set", f"images={tmp_path}", "--set", "name=album", "--set", f"out={tmp_path / 'sets'}"]
    return invoke("build", "gallery", *keys, *options)


def test_a_build_asks_no_server_that_is_configured_and_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    ended = build_gallery(tmp_path)
    assert ended.exit_code == 0
    assert (tmp_path / "sets" / "album" / "v1" / "manifest.json").is_file()
    assert "publish to the bucket" not in ended.output


@pytest.mark.thorough
def test_a_build_under_a_stopped_server_ends_with_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process of its own: Prefect reads its settings once."""
    draw_scene(1).save(tmp_path / "a.png")
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    command = shutil.which("querytruth", path=str(Path(sys.executable).parent))
    keys = ["--set", f"images={tmp_path}", "--set", "name=album", "--set", f"out={tmp_path / 'sets'}"]
    done = subprocess.run(
        [str(command), "build", "gallery", *keys, "--prefect"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("error http://127.0.0.1:9/api (run): Prefect's server does not answer")
