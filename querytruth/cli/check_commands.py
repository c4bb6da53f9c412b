"""`querytruth check` and `check init`: golden queries, checked and written."""

from pathlib import Path
from typing import ClassVar

from pydantic import Field
from rich.prompt import Prompt

from flows.check import CheckRequest, run_check
from querytruth import terminal
from querytruth.backends.search_systems import load_system_file
from querytruth.checks.answers import NO_IMAGE, match_answers
from querytruth.checks.golden_file import STAGE, add_cases
from querytruth.cli.command_line import command, group
from querytruth.cli.options import JsonOption
from querytruth.errors import UserError, translate_read_errors
from querytruth.evaluation.system_answers import SystemAnswer
from querytruth.requests import Request

app = group("check", "Check with golden queries that a search still finds the expected images.")
_ASKED = 5  # queries
_SHOWN = 10  # results of each
_QUESTION = "Right results, such as 1 3 (-2: must not be found; 0: no result is right; Enter: skip the query)"


@app.default
@command
def check(json: JsonOption = False, *, request: CheckRequest) -> None:
    """Check with golden queries that a search still finds the expected images. Exit 0: no case fails; 1: a case fails,
    a floor is missed, or the search does not answer; 2: the golden file is invalid.

    Example: querytruth check golden.yaml --report check
    """
    with terminal.reported_run():
        report = run_check(request)
    if json:
        terminal.print_json(report.to_json())
    else:
        for line in (*(f"{one.status.upper():13}  {one.query}: {one}" for one in report.cases), *report.notes, report):
            terminal.say(str(line))
    raise SystemExit(bool(report.failures))


class GoldenRequest(Request):
    """A golden file from what a person chooses."""

    stage: ClassVar[str] = STAGE

    images: Path = Field(description="Folder that the search indexes.")
    system: Path = Field(description="YAML file that describes a search service.")
    queries: Path | None = Field(None, description="Text file, one query per line; without it they are asked.")
    out: Path = Field(Path("golden.yaml"), description="File to write.")


@app.command(name="init")
@command
def init(*, request: GoldenRequest) -> None:
    """Write a golden file: enter queries, and mark the results that must be found.

    Example: querytruth check init --images photos --system my-search.yaml
    """
    out, cases = request.out, []
    if out.exists():
        raise UserError(STAGE, out, "already exists", "give --out another name, or remove the file")
    described, texts = load_system_file(request.system), [""] * _ASKED
    if request.queries is not None:
        with translate_read_errors(STAGE, request.queries):
            texts = [line for line in request.queries.read_text("utf-8-sig").splitlines() if line.strip()]
    from flows.search import ask_once

    for number, given in enumerate(texts, start=1):
        if not (text := given or _ask(f"Query {number} of {_ASKED} (Enter: finish)")):
            break
        answer = SystemAnswer(tuple(ask_once(described, text, _SHOWN)))
        form, root = described.system.options.ids, request.images.resolve()
        images = [hit.id for hit in match_answers([answer], root, form, described.name)[0].hits]
        terminal.print_table(text, ["", "image"], [[rank, name] for rank, name in enumerate(images, start=1)])
        cases += _choose(text, images)
    add_cases(out, {"system": request.system, "images": request.images}, _SHOWN, cases)
    terminal.say(f"{out} written. Next: querytruth check {out} --update")


def _ask(question: str) -> str:
    try:
        return Prompt.ask(question, console=terminal.err, default="", show_default=False).strip()
    except EOFError:
        return ""


def _choose(text: str, images: list[str]) -> list[dict[str, object]]:
    """Ask until the reply has numbers of images; return the case, or None."""
    while reply := _ask(_QUESTION).replace(",", " ").split():
        if reply == ["0"]:
            return [{"query": text, "nothing": True}]
        known = {str(rank): name for rank, name in enumerate(images, start=1) if not name.startswith(NO_IMAGE)}
        if {one.removeprefix("-") for one in reply} <= known.keys():
            parts = {
                "must": [name for rank, name in known.items() if rank in reply],
                "must_not": [name for rank, name in known.items() if f"-{rank}" in reply],
            }
            return [{"query": text, **{name: found for name, found in parts.items() if found}}]
    return []
