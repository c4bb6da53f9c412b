"""`querytruth build` and `querytruth labels`: sets from definitions, and the names and tags they need."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from flows import requests
from querytruth import terminal
from querytruth.cli.command_line import argument, command, group, option
from querytruth.cli.options import JsonOption, PlanOption, PrefectOption
from querytruth.definitions import PriceOptions
from querytruth.errors import UsageError
from querytruth.requests import ONE_OR_MORE, ByName, ByPlace, Request, WrongRequestError, parse_model_options

if TYPE_CHECKING:
    from builders.publication import BuildResult


app = group("build", "Build a set from its definition.")
labels_app = group("labels", "Translate the labels of annotations, or read facts from photos and files beside them.")
LabelsArgument = Annotated[
    str, argument(help="Label table (included name, folder, or labels.csv), or COCO file.", metavar="TABLE")
]


class Typed(requests.BuildRequest):
    """A build as it is typed: of a definition, or of keys alone, named after the file or folder of the first of
    `sources`."""

    sources: ClassVar[tuple[str, ...]]

    definition: Annotated[Path | None, ByPlace("[DEFINITION.yaml]")] = Field(
        None, description="Definition of the set, a YAML file."
    )

    @model_validator(mode="after")
    def _name_by_source(self) -> Self:
        if self.definition is None:
            keys = dict(override.partition("=")[::2] for override in self.overrides)
            if (given := next((keys[source] for source in self.sources if source in keys), None)) is None:
                raise WrongRequestError("DEFINITION.yaml", "is missing", f"give it, or --set {self.sources[0]}=…")
            from flows.definition_checks import derive_set_name

            self.overrides.insert(0, f"name={derive_set_name(given.strip('[]').partition(',')[0])}")
        return self


# By kind: the keys that can stand for a definition, the first of which names the set, and the help of the command.
_COMMANDS: tuple[tuple[type[requests.BuildRequest], tuple[str, ...], str], ...] = (
    (
        requests.GalleryBuild,
        ("images",),
        "Build a gallery from images: filtered, deduplicated, selected, rendered.\n\n"
        "Example: querytruth build gallery --set images=~/Pictures --set select.count=1000 --plan",
    ),
    (
        requests.PrecisionBuild,
        ("annotations",),
        "Build a precision set from detection labels: queries with many relevant images each.\n\n"
        "Example: querytruth build precision objects.yaml --set mixes.mode=exhaustive --plan",
    ),
    (
        requests.RecallBuild,
        ("images", "gallery"),
        "Build a recall set from captions, each a query for its image; ambiguous captions are resolved.\n\n"
        "Example: querytruth build recall album.yaml --plan",
    ),
    (
        requests.GeneratedBuild,
        (),
        "Build a generated set from the queries that people accepted, with images from the web; downloads missing "
        "ones.\n\nExample: querytruth build generated topics.yaml --plan",
    ),
    (
        requests.QueriesBuild,
        ("queries",),
        "Build a set of your own queries from a search log: sampled by frequency, without judgments.\n\n"
        "Example: querytruth build queries queries.yaml --plan",
    ),
)


def _add_command(kind: type[requests.BuildRequest], sources: tuple[str, ...], about: str) -> None:
    def build(
        plan: PlanOption = False,
        prefect: PrefectOption = False,
        json: JsonOption = False,
        *,
        request: requests.BuildRequest,
    ) -> None:
        _build(request, plan, prefect, json)

    build.__name__, build.__doc__ = str(kind.kind), about
    build.__annotations__["request"] = type("Typed", (Typed, kind), {"sources": sources}) if sources else kind
    app.command(command(build))


for _command in _COMMANDS:
    _add_command(*_command)


def _build(request: requests.BuildRequest, plan: bool, prefect: bool, json: bool) -> None:
    terminal.report(f"querytruth: reading {request.definition or 'the definition'}")
    from querytruth.cli import build_output

    if not plan:
        result = run_build(request, prefect)
        terminal.print_json(build_output.summarize_build(result)) if json else build_output.show_build_result(result)
        return
    from flows.set_kinds import plan_set
    from querytruth.backends.steps import active_run

    definition = request.load_definition()
    with active_run(request.start_run(terminal.TerminalReporter())):
        planned = plan_set(definition)
    terminal.print_json(planned) if json else build_output.PLAN_PRINTERS[definition.kind](planned)


def run_build(request: requests.BuildRequest, prefect: bool) -> BuildResult:
    """Build in process, or under Prefect if the request asks for it: a configured server alone does not."""
    from flows.flow_entrypoint import configured_server
    from querytruth.api import set_builds

    if prefect:
        server = configured_server() or "a temporary server, ready in seconds"
        terminal.report(f"querytruth: running as a Prefect flow on {server}")
    return set_builds.run_build(request, terminal.TerminalReporter(), prefect=prefect)


class TranslateRequest(Request):
    """Names of labels in another language."""

    stage: ClassVar[str] = "translate labels"

    table: Annotated[str, ByPlace("TABLE")] = Field(
        description="A label table (name of an included table, folder, or labels.csv), or a COCO file."
    )
    language: Literal["zh", "en"] = Field(description="Language of the new names.")
    model: str = Field("openai_compatible", description="Chat model that translates.")
    model_option: Annotated[list[str], ByName("--model-option", "KEY=VALUE")] = Field(
        default_factory=list, description="Option of the chat model."
    )
    to: Path | None = Field(None, description="CSV file to write (default: labels.LANGUAGE.csv).")
    plan: bool = Field(False, description="Show the number of calls, their tokens and their cost; send nothing.")
    price: str | None = Field(
        None,
        pattern=r"^\d+(\.\d+)?/\d+(\.\d+)?( ?[A-Z]{3})?$",
        description="With --plan: price of a million input and output tokens, such as 0.2/0.6 or 2/8 CNY.",
    )
    offline: bool = Field(False, description="Use stored replies only; connect to nothing.")

    def read_price(self) -> PriceOptions | None:
        """Return the price of tokens; None without --price."""
        if self.price is None:
            return None
        into, out, currency = re.split(r"[/ ]|(?<=\d)(?=[A-Z])", f"{self.price} USD")[:3]
        return PriceOptions(input_per_million=float(into), output_per_million=float(out), currency=currency)


@labels_app.command
@command
def translate(json: JsonOption = False, *, request: TranslateRequest) -> None:
    """Propose names with a chat model, and write a CSV in which people accept, change or reject them.

    Example: querytruth labels translate annotations.json --language zh --model-option name=qwen3
    """
    from builders.precision.label_translations import plan_translation, translate_labels
    from querytruth.cli.build_output import format_forecast

    options = parse_model_options(request.model_option, "--model-option")
    to = request.to or Path(f"labels.{request.language}.csv")
    if request.plan:
        planned = plan_translation(request.table, request.language, request.model, options, to, request.read_price())
        if json:
            terminal.print_json(planned)
            return
        calls = f"{planned['labels']:,} labels, at most {planned['model_calls']:,} calls, {format_forecast(planned)}"
        terminal.say(calls)
        return
    if request.price is not None:
        raise UsageError("--price", "needs --plan", "add --plan, or remove --price")
    with terminal.reported_run(offline=request.offline):
        done = translate_labels(request.table, request.language, request.model, options, to)
    if json:
        found = {"file": str(done.file), "labels": done.labels, "flagged": done.flagged, "problems": done.problems}
        terminal.print_json(found | {"model_calls": done.calls})
        return
    flags = ", ".join(f"{count} {name}" for name, count in sorted(done.problems.items()))
    terminal.say(f"{done.labels} labels, {done.flagged} to check{f' ({flags})' if flags else ''}")
    terminal.say(
        f"{done.file}: write accept or reject into the column verdict and correct wrong proposals; then run: "
        f"querytruth labels accept {done.file} {request.table} --to my-labels"
    )


@labels_app.command
@command
def accept(
    reviewed: Annotated[Path, argument(help="CSV file with the verdicts filled in.", metavar="FILE")],
    table: LabelsArgument,
    to: Annotated[Path, option(help="Folder of the new label table.")],
    json: JsonOption = False,
) -> None:
    """Write the label table with the names that people accepted.

    Example: querytruth labels accept labels.zh.csv annotations.json --to my-labels
    """
    from builders.precision.label_translations import accept_label_translations

    with terminal.reported_run():
        file, accepted, undecided = accept_label_translations(reviewed, table, to)
    if json:
        terminal.print_json({"file": str(file), "accepted": accepted, "undecided": undecided})
        return
    left = f", {undecided} rows without a verdict" if undecided else ""
    terminal.say(f"{file}: {accepted} names accepted{left}")


class FactsRequest(Request):
    """Request of `labels facts`."""

    stage: ClassVar[str] = "read facts"

    images: Annotated[Path, ByPlace("FOLDER")] = Field(description="Folder of the photos.")
    export: Annotated[list[Path], ONE_OR_MORE] = Field(
        default_factory=list, description="JSON export of Immich or osxphotos; can be repeated."
    )
    albums: bool = Field(False, description="Treat each folder as an album of that name.")
    texts: bool = Field(False, description="Also read the texts in the photos (needs the extra ocr).")
    within: float = Field(10, gt=0, description="Maximum distance in km between a photo and the centre of its city.")
    pseudonyms: bool = Field(False, description="Also write a table of pseudonyms for people.")
    to: Path = Field(Path("facts.csv"), description="Table to write; corrections that people made in it are kept.")


@labels_app.command
@command
def facts(json: JsonOption = False, *, request: FactsRequest) -> None:
    """Read the metadata of photos and their sidecar files (people, keywords, places, dates, ratings) into a table that
    people can correct, with the events that they form. No model is used.

    Example: querytruth labels facts photos --albums --to facts.csv
    """
    from builders.album.steps import add_pseudonyms, refresh_tables

    with terminal.reported_run():
        options = request.model_dump(include={"export", "albums", "texts", "within"})
        found, events = refresh_tables(request.images, request.to, **options)
        files = [request.to, events, *([add_pseudonyms(request.to)] if request.pseudonyms else [])]
    if json:
        terminal.print_json({"files": [str(file) for file in files], **found.counts(), "problems": found.problems})
        return
    terminal.say(f"written: {', '.join(map(str, files))}. Next: querytruth init album --images {request.images}")
    if any(row.is_unconfirmed for row in found.rows):
        terminal.say(f"judge the readings: querytruth review {request.to} --images {request.images}")
