"""Installs an environment, with nothing but Python: `make` calls this.

    .venv/bin/python locks/environment.py locks/run.txt     exactly what was tested, every file checked by its hash
    .venv/bin/python locks/environment.py --newest          the newest of everything that pyproject.toml admits
    .venv/bin/python locks/environment.py --tested          writes which versions were tested, for `querytruth doctor`

uv does it in seconds; where uv cannot be had, pip does it in minutes. torch comes by itself, from the variables `TORCH`
and `TORCH_ARGS`: each machine needs another build of it, and a lock can hold one.
"""

import argparse
import ast
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ROOT / "locks"
PROJECT = ROOT / "pyproject.toml"
TESTED = ROOT / "querytruth" / "backends" / "tested_versions.txt"
# What pip was told of indexes and certificates, by uv's names: uv reads none of pip's settings.
UV_NAMES = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
}


def main() -> None:
    """Install the lock that the command line names, or the newest of everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lock", nargs="?", type=Path, help="run.txt or dev.txt")
    parser.add_argument("--newest", action="store_true", help="the newest in range; prints what differs from dev.txt")
    parser.add_argument("--tested", action="store_true", help=f"writes {TESTED.relative_to(ROOT)} from dev.txt")
    given = parser.parse_args()
    if [given.lock is not None, given.newest, given.tested].count(True) != 1:
        parser.error("name a lock, or --newest, or --tested")
    if given.tested:
        TESTED.write_text(list_tested(), "utf-8")
        return
    os.environ.update(uv_settings(os.environ))
    install = choose_installer()
    torch = [*shlex.split(os.environ.get("TORCH_ARGS", "")), os.environ.get("TORCH", "torch")]
    if given.newest:
        run(*install, *torch)
        run(*install, "--upgrade", *torch, "-e", f"{ROOT}[dev]")
        print(describe_drift(), flush=True)
    else:
        run(*install, "--no-deps", "--require-hashes", "-r", str(given.lock))
        run(*install, *torch)
        run(*install, "--no-deps", "--no-build-isolation", "-e", str(ROOT))


def choose_installer() -> list[str]:
    """Return the command that installs into this environment: uv's, fetched as its own lock says, else pip's."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    fetched = subprocess.run(
        [*pip, "install", "--quiet", "--require-hashes", "-r", str(LOCKS / "uv.txt")], capture_output=True, text=True
    )
    if fetched.returncode == 0:
        return [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", sys.executable]
    print(f"uv cannot be had, so pip installs, in minutes: {fetched.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
    return [*pip, "install", "--quiet"]


def uv_settings(environment: dict[str, str] | os._Environ[str]) -> dict[str, str]:
    """Return pip's settings, from its files and variables, as uv's variables, but for those that are set."""
    listed = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True).stdout
    settings = {}
    for place in ("global", "install", ":env:"):  # the later wins, as in pip
        for name, value in re.findall(rf"^{place}\.([a-z-]+)=(.+)$", listed, re.MULTILINE):
            if name in UV_NAMES:
                settings[UV_NAMES[name]] = " ".join(str(ast.literal_eval(value)).split())
    if "UV_FIND_LINKS" in settings:
        settings["UV_FIND_LINKS"] = settings["UV_FIND_LINKS"].replace(" ", ",")
    if "UV_INDEX" in settings:
        settings["UV_INDEX_STRATEGY"] = "unsafe-best-match"  # as pip: the best of all indexes. Hashes are checked
    return {name: value for name, value in settings.items() if name not in environment}


def describe_drift() -> str:
    """Return one line: which packages of this environment are not as locked, and of which that pyproject.toml names a
    release lies beyond its range."""
    locked = read_lock(LOCKS / "dev.txt")
    drifted = [
        f"{one['name']} {' or '.join(sorted(locked[canonical(one['name'])]))} -> {one['version']}"
        for one in list_packages()
        if one["version"] not in locked.get(canonical(one["name"]), {one["version"]})
    ]
    direct = read_direct()
    beyond = [
        f"{one['name']} {one['version']} -> {one['latest_version']}"
        for one in list_packages("--outdated")
        if canonical(one["name"]) in direct
    ]
    return f"newer than locked: {', '.join(drifted) or 'nothing'}; beyond the ranges: {', '.join(beyond) or 'nothing'}"


def list_packages(*options: str) -> list[dict[str, str]]:
    """Return `name` and `version` of what is installed here; with --outdated, of what has a `latest_version`."""
    command = [sys.executable, "-m", "uv", "pip", "list", "--python", sys.executable, "--format", "json", *options]
    done = subprocess.run(command, capture_output=True, text=True)
    return list(json.loads(done.stdout)) if done.returncode == 0 else []  # without uv, nothing is known


def list_tested() -> str:
    """Return the locked versions of what the wheel names, and torch's, as lines that pip takes as constraints."""
    direct = read_direct()
    lines = re.findall(r"^[A-Za-z0-9._-]+==.*$", (LOCKS / "dev.txt").read_text("utf-8"), re.MULTILINE)
    kept = [line.removesuffix(" \\") for line in lines if canonical(line.split("==")[0]) in direct]
    if os.environ.get("TORCH", "").startswith("torch=="):
        kept.append(os.environ["TORCH"])
    return "".join(f"{line}\n" for line in sorted(kept))


def read_direct() -> set[str]:
    """Return the packages that a wheel may bring: all that pyproject.toml names, but for developers' tools."""
    project = tomllib.loads(PROJECT.read_text("utf-8"))["project"]
    extras = [names for extra, names in project["optional-dependencies"].items() if extra not in ("dev", "bench")]
    return {canonical(re.split(r"[^A-Za-z0-9._-]", one)[0]) for one in [*project["dependencies"], *chain(*extras)]}


def read_lock(path: Path) -> dict[str, set[str]]:
    """Return the locked versions by package; a package has several where Pythons need different ones."""
    locked: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)", path.read_text("utf-8"), re.MULTILINE):
        locked.setdefault(canonical(name), set()).add(version)
    return locked


def canonical(name: str) -> str:
    """Return a package's name as the package index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def run(*command: str) -> None:
    """Run a command that shows its own errors; ends this program with its status where it fails."""
    status = subprocess.run(command).returncode
    if status:
        raise SystemExit(status)


if __name__ == "__main__":
    main()
