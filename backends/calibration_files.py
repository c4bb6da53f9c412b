"""Files of calibrations (`builders/recall/calibration.py`): the shipped ones, and those fitted to a set's decisions."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from backends.annotations.label_tables import DATASETS_FOLDER
from backends.durable_files import write_atomically
from builders.errors import UserError, first_line
from builders.recall.calibration import Calibration
from builders.strict_json import parse_json

SHIPPED_CALIBRATIONS = DATASETS_FOLDER / "ambiguity" / "calibrations.json"
_STAGE = "read calibrations"


def read_calibrations(path: Path) -> tuple[tuple[Calibration, ...], str]:
    """Returns the calibrations of a file, and the file's sha256. Raises UserError where it cannot be read."""
    try:
        raw = path.read_bytes()
        stored = parse_json(raw)
        calibrations = tuple(Calibration.from_dict(one) for one in stored)
    except (OSError, ValueError, TypeError) as error:
        reason = f"cannot be read as calibrations ({type(error).__name__}: {first_line(error)})"
        raise UserError(_STAGE, path, reason, "run querytruth calibrate, or leave ambiguity.calibration out") from None
    return calibrations, hashlib.sha256(raw).hexdigest()


def write_calibrations(path: Path, calibrations: Sequence[Calibration]) -> None:
    """Writes calibrations, one a line."""
    lines = ",\n".join(json.dumps(one.as_dict(), ensure_ascii=False) for one in calibrations)
    write_atomically(path, f"[\n{lines}\n]\n".encode())
