"""The keys of an imported set's definition."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from flows.definitions.common import NearDuplicateOptions, RenderOptions, SetDefinition


class ImportDefinition(SetDefinition):
    """A set of another publisher. `annotations`: the folder or file that they ship; `images`: the folder of the
    pictures, where they do not come inside those files: then every listed picture must be there and whole. `render`
    null: pictures as they are, in the set where they were inside the files, else by reference."""

    kind: Literal["imported"]
    format: str
    annotations: Path
    images: Path | None = None
    split: str | None = None
    near_duplicates: NearDuplicateOptions | None = NearDuplicateOptions()
    render: RenderOptions | None = None
