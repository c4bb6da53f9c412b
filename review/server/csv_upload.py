"""The options of a CSV that is uploaded on the page."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field


class CsvUploadOptions(BaseModel, extra="forbid"):
    """The file name, the problems to allow, and the encoding of a file that does not state its own."""

    file: Annotated[str, Field(max_length=200)] = "upload.csv"
    dry_run: bool = True
    allow_missing: bool = False
    allow_doubled: bool = False
    allow_unknown: bool = False
    allow_changed: bool = False
    allow_other_export: bool = False
    encoding: Literal["", "utf-8", "gb18030", "big5", "latin-1"] = ""


def list_relaxed_options(options: CsvUploadOptions) -> dict[str, CsvUploadOptions]:
    """Return the options with one more problem allowed, by the name of the option."""
    flags = [name for name in CsvUploadOptions.model_fields if name.startswith("allow_") and not getattr(options, name)]
    relaxed = {name: options.model_copy(update={name: True}) for name in flags}
    if not options.encoding:
        relaxed["encoding"] = options.model_copy(update={"encoding": "latin-1"})  # reads any bytes
    return relaxed
