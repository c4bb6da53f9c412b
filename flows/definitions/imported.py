"""The keys of an imported set's definition."""

from pathlib import Path
from typing import Literal

from flows.definitions.common import NearDuplicateOptions, RenderOptions, SetDefinition


class ImportDefinition(SetDefinition):
    """A set of another publisher. `annotations`: their folder or file; `images`: the folder of the images that are not
    inside those files, where every listed image must be present and readable. `render` null: images unchanged, copied
    into the set if they were inside the files, else by reference."""

    kind: Literal["imported"] = "imported"
    format: str
    annotations: Path
    images: Path | None = None
    split: str | None = None
    near_duplicates: NearDuplicateOptions | None = NearDuplicateOptions()
    render: RenderOptions | None = None
