"""`querytruth init` and `querytruth doctor`: a commented definition to start from, and its checks before a build."""

from __future__ import annotations

import sys
from pathlib import Path
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, cast

from pydantic import Field
from rich.prompt import Prompt

from flows.requests import DefinitionRequest
from querytruth import terminal
from querytruth.backends.environment import current_user_name
from querytruth.cli.command_line import command
from querytruth.cli.options import JsonOption
from querytruth.cli.review_commands import ServedRequest
from querytruth.defaults import DATASETS_FOLDER
from querytruth.errors import UserError, suggest_choice
from querytruth.requests import ONE_OR_MORE, ByName, ByPlace, Request
from querytruth.review.page_socket import LOOPBACK, open_page_socket, serve_page

if TYPE_CHECKING:
    from flows.definition_checks import CaptionWriter


class TypedCheck(DefinitionRequest):
    """A definition to check, or none: then the libraries alone."""

    definition: Annotated[Path | None, ByPlace("DEFINITION.yaml")] = Field(
        None, description="Definition, a YAML file. Without it, only the libraries are checked."
    )


@command
def doctor(json: JsonOption = False, *, request: TypedCheck) -> None:
    """Check libraries, folders, keys, models and disk before a build. Builds and downloads nothing. Exit 1
    if a build would fail.

    Example: querytruth doctor recall.yaml
    """
    if request.definition is None:
        _show_libraries(json)
        return
    from flows.definition_checks import check_definition

    with terminal.reported_run():
        checks = check_definition(request.load_definition())
    if json:
        fields = [
            {"check": one.name, "found": one.found, "problem": one.problem and str(one.problem)} for one in checks
        ]
        terminal.print_json(fields)
    else:
        for check in checks:
            state = "ok" if check.problem is None else "problem"
            terminal.say(f"{state:8}{check.name}: {check.problem or check.found}")
    if any(check.problem is not None for check in checks):
        raise SystemExit(1)


def _show_libraries(is_json: bool) -> None:
    from querytruth.backends.environment import describe_newer, read_library_versions

    versions = read_library_versions()
    if is_json:
        terminal.print_json([one._asdict() | {"state": one.state} for one in versions])
        return
    rows: list[list[object]] = [
        [one.name, one.installed or "-", one.tested, "" if one.state == "tested" else one.state] for one in versions
    ]
    terminal.print_table("Libraries", ["library", "installed", "tested", "state"], rows)
    terminal.say(describe_newer(versions))


class InitRequest(Request):
    """A definition to start from."""

    stage: ClassVar[str] = "init"

    kind: Annotated[str, ByPlace("KIND")] = Field(
        description="album, gallery, recall, precision, generated, queries, training, audit or prefect"
    )
    annotations: Annotated[list[Path], ONE_OR_MORE] = Field(
        default_factory=list, description="precision: annotation file in COCO format; can be repeated."
    )
    queries: Path | None = Field(None, description="queries: the search log, or a list of queries.")
    images: str | None = Field(None, description="Folder of the images; gallery also accepts a list, a table or a URL.")
    endpoint: Annotated[str | None, ByName("--endpoint", "URL")] = Field(
        None, description="recall: address of an OpenAI-compatible endpoint, up to /v1."
    )
    model: str | None = Field(
        None, description="recall: model that writes the captions, on the endpoint or this machine."
    )
    key_env: str | None = Field(None, description="recall: environment variable that holds the API key.")
    language: Annotated[str | None, ByName("--language", "zh|en")] = Field(
        None, description="recall: language of the captions; album: language of the queries."
    )
    tables: Annotated[list[str], ByName("--table", "KEY=VALUE")] = Field(
        default_factory=list, description="Options for reading tables, such as encoding=gb18030 or scores=100."
    )
    out: Path | None = Field(None, description="File to write (default: KIND.yaml).")


@command
def init(json: JsonOption = False, *, request: InitRequest) -> None:
    """Write a commented definition, or Prefect deployments, as a starting point. On a terminal, it asks for missing
    options of a recall set.

    Example: querytruth init recall --images photos --endpoint http://localhost:11434/v1 --model qwen2.5vl --language en
    """
    from builders.album.steps import refresh_tables
    from builders.precision.label_files import SHIPPED_FOLDER
    from flows.definition_checks import list_starter_kinds, render_starter
    from querytruth.errors import translate_write_errors

    kind, path = request.kind, request.out or Path(f"{request.kind}.yaml")
    facts: dict[str, Any] = {}
    if kind not in list_starter_kinds():
        raise UserError("init", kind, "is not a kind of set", suggest_choice(kind, list_starter_kinds()))
    if path.exists():
        raise UserError("init", path, "already exists", "give --out another name, or remove the file")
    if kind == "recall" and sys.stdin.isatty() and not json:
        request = _ask(request)
    if request.queries is not None and kind != "queries":
        raise UserError("init", "--queries", f"has no effect on {kind} definitions", "run querytruth init queries")
    writer, images = _choose_writer(request), request.images
    with terminal.reported_run(), translate_write_errors("init", path, "or give --out another name"):
        annotations = request.annotations
        if kind == "album":
            annotations = [path.with_suffix(".facts.csv")]
            found, _ = refresh_tables(Path(images or "photos").expanduser(), annotations[0])
            facts = {**found.counts(), "problems": found.problems}
        text = render_starter(kind, request.queries or annotations, images, path.parent, writer, request.tables)
        path.write_text(text, encoding="utf-8")
        if kind == "prefect" and not (settings := path.with_name("prefect.toml")).exists():
            settings.write_bytes((SHIPPED_FOLDER / "starters" / "prefect.toml").read_bytes())
    if images is not None and "://" not in images and not Path(images).expanduser().exists():
        terminal.report(f"{images} does not exist yet: set `images` in {path} to the location of the images")
    if json:
        terminal.print_json({"path": str(path), "kind": kind, **facts})
    else:
        commands = {
            "generated": f"querytruth topics {path}",
            "training": f"querytruth train {path}",
            "album": f"querytruth build precision {path} --plan",
            "audit": f"querytruth audit plan {path}",
            "prefect": "prefect --no-prompt deploy --all",
        }
        next_ = commands.get(kind, f"querytruth build {kind} {path} --plan")
        terminal.say(f"{path} written. Next: {next_}")


def _ask(request: InitRequest) -> InitRequest:
    """Ask on the terminal for what no option gives: images, endpoint, model and language."""
    images, endpoint = request.images or _prompt("Folder of the images", "images"), request.endpoint
    if endpoint is None:
        endpoint = _prompt("Address of the endpoint (empty: a model on this machine)", "") or None
    default = "qwen2.5vl" if endpoint else "Qwen/Qwen3-VL-8B-Instruct"
    model = request.model or _prompt("Model that writes the captions", default)
    language = request.language or _prompt("Language of the captions, zh or en", "zh")
    return request.model_copy(update={"images": images, "endpoint": endpoint, "model": model, "language": language})


def _prompt(question: str, default: str) -> str:
    return Prompt.ask(question, console=terminal.err, default=default)


def _choose_writer(request: InitRequest) -> CaptionWriter:
    """Return the model of the captions. Raises UserError for options that do not go together."""
    from flows.definition_checks import CaptionWriter

    endpoint, model, key_env, language = (getattr(request, name) for name in _WRITER_KEYS)
    if request.kind != "recall" and any((endpoint, model, key_env, language and request.kind != "album")):
        option = next(f"--{name.replace('_', '-')}" for name in _WRITER_KEYS if getattr(request, name))
        next_step = "remove it, or run querytruth init recall"
        raise UserError("init", option, f"has no effect on {request.kind} definitions", next_step)
    if endpoint is not None and model is None:
        raise UserError("init", endpoint, "is an endpoint without a model", "give --model its name")
    if key_env is not None and endpoint is None:
        raise UserError("init", key_env, "is a key without an endpoint", "give --endpoint its address")
    if language not in (None, "zh", "en"):
        raise UserError("init", language, "is not a caption language", suggest_choice(language, ["zh", "en"]))
    if endpoint is not None and not endpoint.startswith(("http://", "https://")):
        raise UserError("init", endpoint, "is not an http address", "give an address such as http://localhost:11434/v1")
    keys: dict[str, Any] = {"model": model, "endpoint": endpoint, "key_env": key_env}
    named = {key: one for key, one in keys.items() if one is not None}
    return CaptionWriter(**named, language=cast(Literal["zh", "en"], language or "zh"))


_WRITER_KEYS = ("endpoint", "model", "key_env", "language")


class OpenRequest(ServedRequest):
    """The page of a folder."""

    stage: ClassVar[str] = "open"

    folder: Annotated[Path, ByPlace("FOLDER")] = Field(Path(), description="Folder of photos, of sets, or of both.")
    out: Path = Field(DATASETS_FOLDER, description="Folder for new sets; existing sets in it are shown, too.")
    with_names: bool = Field(False, description="--static: also sets that name people, places or texts of an album.")
    static: Path | None = Field(None, description="Write the page as files into this folder, and start no server.")


@command
def open_(*, request: OpenRequest) -> None:
    """Open a page over a folder: its sets with their results, and the first figure of your own search. Stop it with
    Ctrl-C.

    Example: querytruth open photos

    Example: querytruth open --static site
    """
    if request.static is not None:
        from flows.door import Door, write_static

        with terminal.reported_run():
            page = write_static(Door(request.folder, request.out), request.static, with_names=request.with_names)
        terminal.say(f"written: {page}")
        return
    listening = open_page_socket(request.host, request.port)  # connections wait while the page is loaded
    from flows.door import Door
    from flows.door_site import ReviewMount, door_routes
    from querytruth.review.server import PageAccess, create_app

    door = Door(request.folder, request.out, request.reviewer or current_user_name())
    access = PageAccess(listening.getsockname()[1], token_urlsafe(24), request.host)
    terminal.say(f"page of {request.folder.absolute()}: {access.url}")
    if request.host != LOOPBACK:
        terminal.report("querytruth: anyone with this address can judge and start builds; traffic is not encrypted")
    terminal.report("querytruth: Ctrl-C closes the page; judgments are saved immediately")
    app = create_app(door_routes(door), access, "/door", ReviewMount(door))
    serve_page(app, access, listening, request.no_open)
