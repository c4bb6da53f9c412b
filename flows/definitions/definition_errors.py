"""Errors of definitions: the first defect that pydantic finds, with its key, as a UserError."""

import re
from typing import Any

from pydantic import BaseModel, ValidationError

from backends.option_paths import submodel_of
from builders.errors import UserError, suggest_choice

READ_STAGE = "read definition"
URL_CREDENTIALS = re.compile(r"://[^/]*@")


def describe_definition_error(model: type[BaseModel], error: ValidationError, source: str) -> UserError:
    """The error of the first defect; `source` is the file or the class of the definition."""
    reason, next_step = _describe_defect(model, error)
    return UserError(READ_STAGE, source, reason, next_step)


def _describe_defect(model: type[BaseModel], error: ValidationError) -> tuple[str, str]:
    """Reason and next step of the first defect."""
    defect = error.errors()[0]
    key = ".".join(str(part) for part in defect["loc"])
    if defect["type"] == "extra_forbidden":
        return f"key {key!r} is unknown", suggest_choice(str(defect["loc"][-1]), _keys_beside(model, defect["loc"]))
    if defect["type"] == "missing":
        return f"key {key!r} is missing", f"add it, or say --set {key}=…"
    given = f", given {defect['input']!r}" if not isinstance(defect["input"], dict) else ""
    message = defect["msg"].removeprefix("Value error, ")
    if defect["type"] in ("model_type", "model_attributes_type", "dict_type"):  # pydantic's text names a Python class
        message = "is a section of keys, such as {key: value}"
        if defect["input"] is None:
            return f"key {key!r}: {message}, and cannot be null", "leave the key out for its defaults, or give its keys"
    if not key:
        return message, "fix the definition"
    return f"key {key!r}: {message}{URL_CREDENTIALS.sub('://…@', given)}", "fix the value"


def _keys_beside(model: type[BaseModel], where: tuple[Any, ...]) -> list[str]:
    """The known keys at the place of an unknown one."""
    for part in where[:-1]:
        inner = submodel_of(model.model_fields[part]) if part in model.model_fields else None
        if inner is None:
            return []
        model = inner
    return list(model.model_fields)
