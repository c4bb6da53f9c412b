"""The types of the fields that the page sends."""

from typing import Annotated, Literal

from pydantic import Field

from builders.decisions.records import MAX_TEXT_CHARS

ShortText = Annotated[str, Field(max_length=200)]  # a name, an id or a search
LongText = Annotated[str, Field(max_length=MAX_TEXT_CHARS)]
CardKeys = Annotated[list[ShortText], Field(max_length=20)]
DecisionState = Literal["all", "open", "decided"]
