"""Whether annotations say image by image which labels they are exhaustive for, as those of LVIS do."""

from pathlib import Path

from backends.file_errors import translate_read_errors
from backends.regular_files import open_regular
from builders.errors import UserError

_KEYS = (b'"neg_category_ids"', b'"not_exhaustive_category_ids"')
_PIECE = 1 << 22  # bytes


def refuse_label_lists(path: Path) -> None:
    """Raises UserError for a file whose images list labels: all others are unknown there, so that neither absences nor
    numbers of objects follow from it. Reads until the first such key."""
    with translate_read_errors("read annotations", path), open_regular(path) as file:
        tail = b""
        while piece := file.read(_PIECE):
            text = tail + piece
            if key := next((key for key in _KEYS if key in text), None):
                reason = f"lists by image which labels are annotated whole ({key.decode()}): families need all of them"
                raise UserError("families", path, reason, "delete families, or give a file that is exhaustive")
            tail = text[-len(_KEYS[1]) :]
