"""HTML of the review page: templates that escape every value."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


def render_template(template: str, about: dict[str, Any], **context: Any) -> str:
    """One page; a value that a template asks for and does not get is an error."""
    return _environment().get_template(template).render(about=about, **context)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("review"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["number"] = lambda value: f"{value:,}"
    environment.filters["words"] = lambda value: str(value).replace("_", " ")
    return environment
