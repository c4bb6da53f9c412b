"""`querytruth calibrate`: fits the probability that a caption fits another image to reviewers' decisions."""

from pathlib import Path
from typing import Annotated

import typer

from querytruth import terminal
from querytruth.options import DEFAULT_DATASETS_FOLDER, JsonOption, OutOption, SetArgument


def calibrate(
    name: SetArgument,
    to: Annotated[
        Path | None, typer.Option(help="The file to write (default: calibration.json beside the set's versions).")
    ] = None,
    out: OutOption = DEFAULT_DATASETS_FOLDER,
    json: JsonOption = False,
) -> None:
    """Fit the probability that a caption fits another image to what the reviewers of a recall set said.

    Example: querytruth calibrate family-album
    """
    terminal.err.print(f"querytruth: reading {name}", markup=False)
    from backends.sets.set_files import find_set
    from flows.recall_calibration import calibrate_set

    with terminal.reported_run():
        file, fitted = calibrate_set(find_set(name, out), to)
    if json:
        rows = [
            {"language": one.calibration.language, "pairs": one.pairs, "fit": one.fit, "starts_from": one.starts_from,
             "error_before": one.before, "error_held_out": one.after}
            for one in fitted
        ]  # fmt: skip
        terminal.print_json({"file": str(file), "languages": rows})
        return
    for one in fitted:
        start = "the shipped calibration" if one.starts_from else "nothing"
        before = "" if one.before is None else f", before {one.before:.3f}"
        terminal.out.print(
            f"{one.calibration.language}: {one.pairs} pairs, {one.fit} fit; from {start}; "
            f"mean squared error {one.after:.3f} on held-out queries{before}",
            markup=False,
        )
    terminal.out.print(f"{file} written; name it in the definition: ambiguity: {{calibration: {file}}}", markup=False)
