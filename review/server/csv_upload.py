"""A filled-in CSV as the page sends it: its name, and what of its problems to overlook."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class CsvUploadOptions(BaseModel):
    """Nothing is overlooked that was not ticked; `encoding` counts where the file does not say its own."""

    model_config = ConfigDict(extra="forbid")

    file: Annotated[str, Field(max_length=200)] = "upload.csv"
    dry_run: bool = True
    allow_missing: bool = False
    allow_doubled: bool = False
    allow_unknown: bool = False
    allow_changed: bool = False
    allow_other_export: bool = False
    encoding: Literal["", "utf-8", "gb18030", "big5", "latin-1"] = ""


def list_relaxed_options(options: CsvUploadOptions) -> dict[str, CsvUploadOptions]:
    """The same with one more thing overlooked, by the name of that thing: which of them helps shows in the trying."""
    flags = [name for name in CsvUploadOptions.model_fields if name.startswith("allow_") and not getattr(options, name)]
    relaxed = {name: options.model_copy(update={name: True}) for name in flags}
    if not options.encoding:
        relaxed["encoding"] = options.model_copy(update={"encoding": "latin-1"})  # reads any bytes
    return relaxed
