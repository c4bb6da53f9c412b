"""The wheel and the source archive: what they hold, and that the wheel runs where no checkout is."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PACKAGES = ("builders", "flows", "prompts", "querytruth")
SHIPPED_DATA = ("ambiguity", "coco80", "objects365", "sample-album", "starters", "voc20")
KINDS = ("gallery", "recall", "precision", "generated", "training", "prefect")
_BUILD = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"


def build(what: str, tree: Path, out: Path) -> Path:
    """`sdist` or `wheel` of a source tree, as pip builds them."""
    out.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-c", _BUILD, f"build_{what}", str(out)]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    return out / done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the repository holds of the package, beside a set that somebody built in the checkout."""
    tree = tmp_path_factory.mktemp("package") / "tree"
    tree.mkdir()
    for name in PACKAGES:
        shutil.copytree(ROOT / name, tree / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in SHIPPED_DATA:
        shutil.copytree(ROOT / "datasets" / name, tree / "datasets" / name, symlinks=True)
    for name in ("pyproject.toml", "README.md", "LICENSE", "prefect.yaml"):
        shutil.copyfile(ROOT / name, tree / name)
    (tree / "datasets" / "mine" / "v1").mkdir(parents=True)
    (tree / "datasets" / "mine" / "v1" / "manifest.json").write_text("{}")
    return tree


@pytest.fixture(scope="module")
def wheel(tree: Path) -> Path:
    return build("wheel", tree, tree.parent / "wheel")


def contents(wheel: Path) -> dict[str, bytes]:
    """The files of the package in a wheel, by name."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if ".dist-info/" not in name}


@pytest.mark.thorough
def test_the_wheel_holds_every_file_of_the_packages_and_the_shipped_data_and_nothing_else(
    tree: Path, wheel: Path
) -> None:
    files = [file for package in PACKAGES for file in (ROOT / package).rglob("*") if file.is_file()]
    expected = {str(file.relative_to(ROOT)): file for file in files if "__pycache__" not in file.parts}
    expected = {name: file for name, file in expected.items() if not name.startswith("querytruth/shipped/")}
    for name in SHIPPED_DATA:
        for file in filter(Path.is_file, (ROOT / "datasets" / name).rglob("*")):
            expected[f"querytruth/shipped/{file.relative_to(ROOT / 'datasets')}"] = file
    packed = contents(wheel)
    assert set(packed) == set(expected)
    assert [name for name, file in expected.items() if packed[name] != file.read_bytes()] == []
    for name in ("objects365/labels.csv", "ambiguity/lines.json", "starters/precision.yaml"):
        assert packed[f"querytruth/shipped/{name}"]


@pytest.mark.thorough
def test_the_source_archive_builds_the_same_wheel(tree: Path, wheel: Path) -> None:
    archive = build("sdist", tree, tree.parent / "sdist")
    with tarfile.open(archive) as packed:
        packed.extractall(tree.parent / "unpacked", filter="data")
    (unpacked,) = (tree.parent / "unpacked").iterdir()
    assert contents(build("wheel", unpacked, tree.parent / "again")) == contents(wheel)


def test_nothing_forbids_an_upload(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("METADATA"))
        metadata = archive.read(name).decode()
    assert "Private ::" not in metadata
    assert "Requires-Python: >=3.11" in metadata


@pytest.fixture(scope="module")
def installed(wheel: Path) -> Path:
    """The programs of a virtual environment with the wheel. It sees the libraries of this one, not its checkout: a
    folder on the path is no place for editable installations."""
    folder = wheel.parents[1] / "venv"
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    install = [python, "-I", "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel]  # -I: no PYTHONPATH
    subprocess.run(install, check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib"))
    return folder / "bin"


@pytest.mark.thorough
def test_the_installed_wheel_has_its_version_its_starters_and_its_help(installed: Path, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(*words: str) -> str:
        command = [installed / "querytruth", *words]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    (metadata,) = installed.parent.glob("lib/python*/site-packages/querytruth-*.dist-info")
    assert metadata.name.removeprefix("querytruth-").removesuffix(".dist-info") in run("--version")
    assert "precision.yaml written" in run("init", "precision")
    assert (tmp_path / "precision.yaml").is_file()
    assert "--in-process" in run("demo", "--help")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_wheel_runs_in_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["XDG_STATE_HOME"] = str(tmp_path / "state")

    def run(*words: str, program: str = "querytruth") -> str:
        command = [installed / program, *words]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    origin = run("-c", "import builders, querytruth; print(builders.__file__, querytruth.__file__)", program="python")
    assert origin.count(str(installed.parent)) == 2
    for kind in KINDS:
        assert f"{kind}.yaml written" in run("init", kind)
    assert "Open demo/index.html" in run("demo", "--in-process")
    images, album = "images=demo/album/images", "demo/album/annotations.json"
    assert "v1" in run("build", "gallery", "--set", images, "--set", "name=own", "--in-process")
    run("init", "precision", "--annotations", album, "--images", "demo/album/images", "--out", "objects.yaml")
    assert "labels: objects365" in (tmp_path / "objects.yaml").read_text("utf-8")
    assert "/v1 published" in run("build", "precision", "objects.yaml", "--set", "name=objects", "--in-process")
    assert "hit@1" in run("evaluate", "objects", "--baseline", "lexical")
    deployments = yaml.safe_load((tmp_path / "prefect.yaml").read_text("utf-8"))["deployments"]
    entrypoints = sorted({deployment["entrypoint"] for deployment in deployments})
    load = f"from prefect.flows import load_flow_from_entrypoint as load; print([load(e).name for e in {entrypoints}])"
    assert run("-c", load, program="python").count("'") == 2 * len(entrypoints) > 0
