"""Adds the commands `run` and `resume` to Prefect's command line; pyproject.toml registers this module.

Prefect has no public way to add a command: this uses a private name, and where that fails, prints the alternatives.
Every process that imports Prefect in this folder loads this module; it does nothing outside Prefect's command.
"""

import sys
from pathlib import Path

from prefect.plugins import HookContext, SetupResult, register_hook

_ALTERNATIVES = "use python -m flows.recall_set -p definition=FILE, or querytruth build recall FILE"
_COMMAND = "flows.prefect_runs.one_off_run:app"
_RESUME = "flows.prefect_runs.resume_run:app"


@register_hook
def setup_environment(*, ctx: HookContext) -> SetupResult | None:
    """Register the commands by name, so that each is imported only when it is called."""
    if not _is_prefects_own_command():
        return None
    try:
        from prefect.cli._app import _app

        _app.command(_COMMAND, name="run", help="Run a flow here and now.")
        _app.command(_RESUME, name="resume", help="Answer a run that waits for a person.")
    except Exception as error:  # a later Prefect may change the private name
        warning = f"`prefect run` cannot be added to Prefect {ctx.prefect_version} ({error!r}): {_ALTERNATIVES}"
        ctx.logger_factory("prefect.plugins").warning(warning)
        if sys.argv[1:2] == ["run"]:
            print(warning, file=sys.stderr)
    return None


def _is_prefects_own_command() -> bool:
    started = Path(sys.argv[0] if sys.argv else "")
    return started.name in ("prefect", "-m") or started.parent.name == "prefect"
