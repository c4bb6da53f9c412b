"""Descriptions that people wrote into photos, as captions: those of a table of facts (`querytruth labels facts`)."""

from querytruth.backends.files.durable_files import file_sha256
from querytruth.backends.files.table_rows import iterate_rows
from querytruth.backends.files.text_formats import unescape_formula
from querytruth.backends.models.chat.captions_file import CaptionRecord, CaptionsFileOptions, StoredCaptionModel
from querytruth.backends.plugins import ModelIdentity

ANSWERS_ARE_WRITTEN = True


def load(options: CaptionsFileOptions) -> StoredCaptionModel:
    """Read the descriptions of a table of facts, as people corrected them. Raises UserError."""
    captions = []
    for _, row in iterate_rows(options.path, ("image", "kind", "value"), ("corrected",), "read captions"):
        text = unescape_formula(row.get("corrected") or row["value"])
        if row["kind"] == "description" and text.strip("- "):
            captions.append(CaptionRecord((unescape_formula(row["image"]),), text))
    identity = ModelIdentity(options.path.name, file_sha256(options.path)[0], {"language": options.language})
    return StoredCaptionModel(identity, captions)
