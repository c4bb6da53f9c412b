"""Settings that are read and made before Prefect is imported: the user's server, and no telemetry."""

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


# No telemetry, and enough time for the first start on an empty home and a small machine.
_QUIET_SETTINGS = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "PREFECT_LOGGING_LEVEL": "WARNING",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",  # a temporary server is stopped while it still writes events
}


def silence_prefect() -> None:
    """Set these variables, where unset, for this process and the servers and workers that it starts."""
    for name, value in _QUIET_SETTINGS.items():
        os.environ.setdefault(name, value)
