"""What is settled before Prefect is imported: which server the user has configured, and that nothing calls home."""

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


# No news, no telemetry, and time enough for the first start on an empty home and a small machine.
_QUIET_SETTINGS = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "PREFECT_LOGGING_LEVEL": "WARNING",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",  # a server of our own is stopped while it still writes events
    "DASK_LOGGING__DISTRIBUTED": "error",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # in spite of its name: a Ray of our own listens on loopback only
}


def silence_prefect() -> None:
    """Set that in the environment, for this process and the servers and workers that it starts; what is set stays."""
    for name, value in _QUIET_SETTINGS.items():
        os.environ.setdefault(name, value)
