"""The arguments and options that several commands share."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from querytruth.cli.command_line import argument, complete_sets, option

if TYPE_CHECKING:
    from querytruth.sets.review_csv import ReviewTableOptions

CPU_CORES = os.cpu_count() or 1


SetArgument = Annotated[str, argument(help="name, name/v3 or a path", metavar="SET", complete=complete_sets)]
OutOption = Annotated[Path, option(help="Folder that holds the sets.")]
ImageRootsOption = Annotated[
    list[str],
    option("--images", help="Folder or URL outside the set where its images can be read.", metavar="ROOT"),
]
JsonOption = Annotated[bool, option("--json", help="Print JSON.")]
WorkersOption = Annotated[int, option(help="Worker processes for images.", min=1, max=256, default="all cores")]
AcceptLossOption = Annotated[
    bool,
    option("--accept-loss", help="Continue although the decision log lost decisions of the newest version."),
]
PageLanguageOption = Annotated[Literal["en", "zh"], option("--page-language", help="Language of the page.")]
PlanOption = Annotated[bool, option("--plan", help="Print the planned work and its cost, and do nothing.")]
AllowMissingOption = Annotated[bool, option("--allow-missing", help="Accept deleted rows.")]
AllowDoubledOption = Annotated[bool, option("--allow-doubled", help="Accept duplicate rows if they agree.")]
AllowUnknownOption = Annotated[
    bool,
    option("--allow-unknown", help="Ignore rows that match nothing in the set."),
]
AllowChangedOption = Annotated[bool, option("--allow-changed", help="Accept changes in read-only cells.")]
EncodingOption = Annotated[str | None, option(help="Encoding of the CSV file, such as gb18030.")]
PrefectOption = Annotated[
    bool, option("--prefect/--in-process", help="Run as a Prefect flow, on the configured server or a temporary one.")
]


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The options for reading a filled-in CSV."""

    encoding: EncodingOption = None
    allow_missing: AllowMissingOption = False
    allow_doubled: AllowDoubledOption = False
    allow_unknown: AllowUnknownOption = False
    allow_changed: AllowChangedOption = False

    def to_review_options(self) -> ReviewTableOptions:
        """Return the options in the form of the flows."""
        from querytruth.sets.review_csv import ReviewTableOptions
        from querytruth.sets.review_tables import ImportTolerances

        tolerances = ImportTolerances(self.allow_missing, self.allow_doubled, self.allow_unknown, self.allow_changed)
        return ReviewTableOptions(tolerances, self.encoding)
