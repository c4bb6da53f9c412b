"""Commands as functions: how their parameters become arguments and options, and the messages for invalid calls.

A parameter with `argument` is positional, one with `option` is named. A dataclass, or a request of pydantic, is a
group of options, each field one of them. A command receives only what was typed, so that defaults are defined in one
place.
"""

import functools
import inspect
import sys
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from cyclopts import App, CycloptsError, Parameter, exceptions, validators
from cyclopts.completion import CompletionContext

from querytruth.defaults import DATASETS_FOLDER
from querytruth.errors import UsageError, suggest_choice

Complete = Callable[[Any], Iterable[str]]  # of cyclopts' context, with what was typed: the words that may follow
Advise = Callable[[str, str], str | None]  # a command, and a word that is none of its own: what to say instead
_LISTED = 12  # commands; more of them are looked up in the help
_BY_PLACE, _BY_NAME = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.KEYWORD_ONLY
_KINDS = {int: "a whole number", float: "a number", date: "a day such as 2026-06-01"}


def argument(*, help: str | None = None, metavar: str, complete: Complete | None = None) -> Parameter:
    """Return the annotation of a positional parameter."""
    return Parameter(name=metavar, help=help, completer=complete)


def option(
    name: str | None = None,
    *,
    help: str | None = None,
    metavar: str | None = None,
    min: float | None = None,
    max: float | None = None,
    default: str | None = None,
) -> Parameter:
    """Return the annotation of a named parameter: by default its own name, else `--name` or, for a switch,
    `--name/--other`. `min` and `max`: the allowed range, both included; `default`: the default that help shows, where
    it differs between machines."""
    positive, _, negative = (name or "").partition("/")
    keys: dict[str, Any] = {"name": positive} if positive else {}
    keys["negative"] = negative or ()  # none is made up: nobody types --no-json, or --empty-set of a list
    keys |= {} if default is None else {"show_default": default}
    keys |= {} if min is None and max is None else {"validator": validators.Number(gte=min, lte=max)}
    return Parameter(help=help, metavar=metavar, **keys)


def group(name: str, about: str) -> App:
    """Return a command with sub-commands."""
    return App(name=name, help=about, group_parameters="Options", group_commands="Commands")


def complete_sets(context: CompletionContext) -> list[str]:
    """Return the names of the sets in the folder of --out that begin so, and after a slash their versions."""
    from querytruth.sets.published_files import newest_version

    folder = Path(context["out"].value or DATASETS_FOLDER)
    name, slash, _ = context.incomplete.partition("/")
    try:
        if slash:
            found = [f"{name}/{version.name}" for version in folder.joinpath(name).glob("v[0-9]*")]
        else:
            found = [one.name for one in folder.iterdir() if one.is_dir() and newest_version(one)]
    except OSError:
        return []  # a completion prints no errors
    return sorted(one for one in found if one.startswith(context.incomplete))


def complete_formats(context: CompletionContext) -> list[str]:
    """Return the names of the formats of others that begin so, of the command that is typed."""
    from querytruth.formats.exporters import EXPORTERS
    from querytruth.formats.importers import IMPORTERS

    is_export = any("--allow-loss" in one.names for one in context.arguments)
    known = EXPORTERS if is_export else IMPORTERS
    return [name for name in known.list_plugins() if name.startswith(context.incomplete)]


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Give a function the signature of its command: arguments by place alone, options by name alone, groups of options
    in the place of dataclasses and requests. A parameter `given` receives the names of the options that were typed."""
    signature = inspect.signature(function, eval_str=True)
    by_place: list[inspect.Parameter] = []
    by_name: list[inspect.Parameter] = []
    groups: dict[str, tuple[Any, list[str]]] = {}
    for parameter in signature.parameters.values():
        if parameter.name == "given":
            continue
        if (members := _members(parameter.annotation)) is not None:
            groups[parameter.name] = parameter.annotation, [one.name for one in members]
            by_place += [one for one in members if one.kind is _BY_PLACE]
            by_name += [one for one in members if one.kind is _BY_NAME]
        elif _is_by_place(parameter.annotation):
            by_place.append(parameter.replace(kind=_BY_PLACE))
        else:
            by_name.append(_shown(parameter.replace(kind=_BY_NAME)))

    by_option = {one.name for one in by_name}

    @functools.wraps(function)
    def call(*arguments: object, **options: object) -> None:
        if len(arguments) > len(by_place):
            raise TypeError(f"{function.__name__} takes {len(by_place)} positional arguments")
        typed = dict(zip((one.name for one in by_place), arguments, strict=False)) | options
        passed = dict(typed)
        for name, (kind, members) in groups.items():
            make = getattr(kind, "read", lambda values, kind=kind: kind(**values))
            given = {member: passed.pop(member) for member in members if member in passed}
            try:
                passed[name] = make(given)
            except UsageError as error:
                item = f"--{error.item.replace('_', '-')}" if error.item in by_option else error.item
                raise UsageError(item, error.reason, error.next_step, error.stage) from None
        if "given" in signature.parameters:
            passed["given"] = frozenset(typed)
        function(**passed)

    parameters = [*by_place, *by_name]
    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {one.name: one.annotation for one in parameters}
    return call


def _is_by_place(annotation: object) -> bool:
    found = getattr(annotation, "__metadata__", ())
    return any(isinstance(one, Parameter) and one.name and not next(iter(one.name)).startswith("-") for one in found)


def _members(annotation: object) -> list[inspect.Parameter] | None:
    """Return the options of a group; None where the annotation is not a group."""
    if is_dataclass(annotation):
        types, defaults = get_type_hints(annotation, include_extras=True), annotation()  # type: ignore[operator]
        return [
            _shown(
                inspect.Parameter(one.name, _BY_NAME, default=getattr(defaults, one.name), annotation=types[one.name])
            )
            for one in fields(annotation)
        ]
    if isinstance(annotation, type) and hasattr(annotation, "model_fields"):
        of_forms = sys.modules["querytruth.requests"].IN_FORMS  # loaded with the request; its pydantic takes long
        fields_ = annotation.model_fields.items()
        return [_member_of_request(name, field) for name, field in fields_ if of_forms not in field.metadata]
    return None


def _member_of_request(name: str, field: Any) -> inspect.Parameter:
    default = inspect.Parameter.empty if field.is_required() else field.get_default(call_default_factory=True)
    # By what they have: the classes are pydantic's and of requests, which take longer to load than all else here.
    place = next((one for one in field.metadata if hasattr(one, "reads")), None)
    if place is not None:
        complete = {"SET": complete_sets, "FORMAT": complete_formats}.get(place.metavar)
        shape = argument(help=field.description, metavar=place.metavar, complete=complete)
        kind = place.reads or field.annotation
        return inspect.Parameter(name, _BY_PLACE, default=default, annotation=Annotated[kind, shape])
    spelled = next((one for one in field.metadata if hasattr(one, "option")), None)
    shown = f"--{name.strip('_').replace('_', '-')}"
    shown = f"{shown}/--no-{shown[2:]}" if default is True else shown
    shape = (
        option(shown, help=field.description)
        if spelled is None
        else option(spelled.option, help=field.description, metavar=spelled.metavar)
    )
    return _shown(inspect.Parameter(name, _BY_NAME, default=default, annotation=Annotated[field.annotation, shape]))


def _shown(parameter: inspect.Parameter) -> inspect.Parameter:
    """Return the option, with its default in help only where it is informative."""
    if parameter.default is not inspect.Parameter.empty and parameter.default not in (None, False, "", [], ()):
        return parameter
    return parameter.replace(annotation=Annotated[parameter.annotation, Parameter(show_default=False)])


def refuse_options(given: frozenset[str], known: Iterable[str], of: str) -> None:
    """Raise UsageError for a typed option that has no effect in this form of a command, `of`."""
    if others := sorted(given - {*known}):
        raise UsageError(f"--{others[0].strip('_').replace('_', '-')}", f"has no effect with {of}", "remove it")


def run_command(app: App, words: list[str] | None, advise: Advise) -> None:
    """Run what was typed (`words`; None: the arguments of the process). `advise` suggests a replacement for a word that
    is not a command. Raises UsageError for an invalid call."""
    words = sys.argv[1:] if words is None else words
    if words and not words[0].startswith("-") and words[0] in app and (typed := app[words[0]]).default_command:
        typed.help = None  # its own words, which are more than what the list of commands says of it
    try:
        app(words)
    except CycloptsError as error:
        raise _explain(app, error, advise) from None


def describe_commands(app: App) -> str:
    """Return the reference of all commands and options, in Markdown."""
    for name in app:
        if not name.startswith("-") and app[name].default_command:
            app[name].help = None  # its own words
    text = app.generate_docs(usage_name=app.name[0])
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def _explain(app: App, error: CycloptsError, advise: Advise) -> UsageError:
    named = " ".join([app.name[0], *(error.command_chain or [])])
    see = f"see {named} --help"
    match error:
        case exceptions.UnknownCommandError():
            word = (error.unused_tokens or ["?"])[0]
            names = [name for name in (error.app or app) if name.startswith("-") == word.startswith("-")]
            close, kind = suggest_choice(word, names), "option" if word.startswith("-") else "command"
            close = see if len(names) > _LISTED and not close.startswith("did") else close
            return UsageError(word, f"is not a known {kind} of {named}", advise(named, word) or close)
        case exceptions.UnknownOptionError():
            word = error.token.keyword or error.token.value
            names = sorted({name for one in error.argument_collection for name in one.names if name.startswith("--")})
            close = suggest_choice(word, names)
            return UsageError(word, f"is not a known option of {named}", close if close.startswith("did") else see)
        case exceptions.UnusedCliTokensError():
            return UsageError((error.unused_tokens or ["?"])[0], f"is an unexpected argument of {named}", see)
        case exceptions.MissingArgumentError():
            typed = (error.keyword or _name(error)) in (error.root_input_tokens or [])
            next_step = see if typed else f"run {named} {_describe_call(app, error)}"
            return UsageError(_name(error), "needs a value" if typed else f"is required by {named}", next_step)
        case exceptions.RepeatArgumentError():
            return UsageError(_name(error), "is given more than once", "give it once")
        case exceptions.CoercionError() if error.token is not None:
            choices = [] if error.argument is None else list(error.argument.get_choices() or [])
            kind = "one of its choices" if choices else _KINDS.get(error.target_type or str, "a valid value")
            next_step = suggest_choice(error.token.value, choices) if choices else see
            return UsageError(_name(error), f"is {error.token.value!r}, but must be {kind}", next_step)
    reason = getattr(error, "exception_message", "") or str(error)
    return UsageError(_name(error), " ".join(reason.split()).rstrip(".")[:120], see)


def _describe_call(app: App, error: CycloptsError) -> str:
    """Return the arguments of a command, and the options that it can't do without, for whoever left one out."""
    for name in error.command_chain or ():
        app = app[name]
    known = app.assemble_argument_collection()
    by_place = [one.name if one.required else f"[{one.name}]" for one in known if not one.name.startswith("-")]
    return " ".join([*by_place, *(f"{one.name} …" for one in known if one.required and one.name.startswith("-"))])


def _name(error: CycloptsError) -> str:
    return "command" if error.argument is None else error.argument.name
