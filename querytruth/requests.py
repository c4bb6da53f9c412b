"""Requests of operations, defined once: the fields of a request are the options of its command, the keyword arguments
of its function, and the parameters and the form of its Prefect flow.

A field of several values also accepts a single one. An invalid request is reported in one line, before any work.
"""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import yaml
from pydantic import BeforeValidator, ValidationError

from querytruth.definitions import StrictModel
from querytruth.errors import UsageError, suggest_choice

Result = TypeVar("Result")


class ByPlace(NamedTuple):
    """Marks a field that a command line gives by its place, under this name. `reads`: the type that the command line
    reads, where a program may give others."""

    metavar: str
    reads: Any = None


class ByName(NamedTuple):
    """Marks a field whose option has another name than the field, and the name of its value in help."""

    option: str
    metavar: str


IN_FORMS = object()  # of a field: for deployments, whose form has it; no option, and no argument of a function


class WrongRequestError(ValueError):
    """An invalid part of a request, why it is invalid, and what to do."""

    def __init__(self, item: object, reason: str, next_step: str) -> None:
        super().__init__(f"{item} {reason}; {next_step}")
        self.item, self.reason, self.next_step = item, reason, next_step


SET_NAME = BeforeValidator(
    lambda value: value if value is None or isinstance(value, str) else str(getattr(value, "path", value))
)  # of a field: a set that a program holds is the path of its version
# Of a field: one value, also a table or a pair of arrays, is a list of it.
ONE_OR_MORE = BeforeValidator(lambda value: value if isinstance(value, list) else [] if value is None else [value])


class Request(StrictModel):
    """The base of all requests. `stage` names the operation in errors."""

    stage: ClassVar[str]

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Self:
        """Return the request of these values. Raises UsageError for the first one that cannot be."""
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            defect = error.errors()[0]
        wrong = defect.get("ctx", {}).get("error")
        if isinstance(wrong, WrongRequestError):
            raise UsageError(wrong.item, wrong.reason, wrong.next_step, cls.stage)
        name = str(next(iter(defect["loc"]), cls.stage))
        if defect["type"] == "extra_forbidden":
            raise UsageError(name, "is not a known option", suggest_choice(name, [*cls.model_fields]), cls.stage)
        if defect["type"] == "missing":
            raise UsageError(name, "is missing", f"give {name}", cls.stage)
        reason = defect["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
        raise UsageError(name, f"is {defect['input']!r:.60}: {reason}"[:160], f"give another {name}", cls.stage)


def takes_request(
    request: type[Request], name: str | None = None, of_self: str | None = None
) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Give a function the fields of a request as keyword arguments, those of `ByPlace` by their place as well, before
    its own; it is called with the request that they make. `name`: the function's, where it differs; `of_self`: of a
    method of a set, the field that is this set."""

    def decorate(function: Callable[..., Result]) -> Callable[..., Result]:
        first, *own = inspect.signature(function).parameters.values()
        own = own if of_self is None else own[1:]
        known = {} if of_self is None else {of_self: "path", "out": "out"}  # fields, and what a set calls them
        fields = [
            inspect.Parameter(
                name,
                inspect.Parameter.POSITIONAL_OR_KEYWORD
                if any(isinstance(one, ByPlace) for one in field.metadata)
                else inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty
                if field.is_required()
                else field.get_default(call_default_factory=True),
                annotation=field.annotation,
            )
            for name, field in request.model_fields.items()
            if name not in known and IN_FORMS not in field.metadata
        ]
        by_place = [one.name for one in fields if one.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]

        @functools.wraps(function)
        def call(*places: object, **values: object) -> Result:
            of = places[: len(known) and 1]
            places = places[len(of) :]
            if len(places) > len(by_place):
                raise UsageError(repr(places[-1]), "is one argument too many", "pass it by keyword", request.stage)
            values |= dict(zip(by_place, places, strict=False))
            kept = {one.name: values.pop(one.name) for one in own if one.name in values}
            values |= {name: getattr(set_, place) for set_ in of for name, place in known.items()}
            return function(*of, request.read(values), **kept)

        parameters = sorted([*([first] if known else []), *fields, *own], key=lambda one: one.kind)
        call.__name__ = call.__qualname__ = name or function.__name__
        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        lines = [
            f"    {name}: {field.description}"
            for name, field in request.model_fields.items()
            if field.description and name not in known and IN_FORMS not in field.metadata
        ]
        call.__doc__ = f"{inspect.cleandoc(function.__doc__ or '')}\n\nArguments:\n" + "\n".join(lines)
        return call

    return decorate


def parse_model_options(options: Sequence[str], name: str = "--judge-option") -> dict[str, Any]:
    """Return the options of KEY=VALUE texts of the option `name`; a value is read as in a definition.

    Raises UsageError."""
    return dict(_split_option(option, name) for option in options)


def _split_option(text: str, name: str) -> tuple[str, Any]:
    """Return key and value of KEY=VALUE; a value is read as in a definition. Raises UsageError."""
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise UsageError(name, f"is {text!r}", "write KEY=VALUE")
    try:
        return key, yaml.safe_load(value)
    except yaml.YAMLError:
        return key, value
