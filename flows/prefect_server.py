"""Whether the user has configured a Prefect server, found out without importing Prefect."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path


def configured_server() -> str | None:
    """The API address from the environment or from the active profile below PREFECT_HOME; None for neither."""
    if address := os.environ.get("PREFECT_API_URL"):
        return address
    home = Path(os.environ.get("PREFECT_HOME") or Path.home() / ".prefect").expanduser()
    try:
        profiles = tomllib.loads((home / "profiles.toml").read_text("utf-8"))
    except (OSError, tomllib.TOMLDecodeError):
        return None
    active = os.environ.get("PREFECT_PROFILE") or profiles.get("active", "")
    address = profiles.get("profiles", {}).get(active, {}).get("PREFECT_API_URL")
    return str(address) if address else None
