"""Captions that people wrote on the review page of a gallery."""

import hashlib
from pathlib import Path

from querytruth.backends.models.chat.captions_file import CaptionRecord, StoredCaptionModel
from querytruth.backends.plugins import ModelIdentity, PluginOptions
from querytruth.errors import UserError
from querytruth.sets.decision_log import CAPTION_LOG_NAME, read_decisions
from querytruth.sets.decision_records import HumanCaption, latest_by_target

ANSWERS_ARE_WRITTEN = True


class HumanCaptionOptions(PluginOptions):
    """`path`: the gallery's folder, or a version in it. `language` excludes captions in other languages."""

    path: Path
    language: str | None = None


def load(options: HumanCaptionOptions) -> StoredCaptionModel:
    """Read the captions in a gallery's log; each line of a text is one. Raises UserError if there are none."""
    log = next((f for f in (options.path, options.path.parent) if (f / CAPTION_LOG_NAME).is_file()), None)
    if log is None:
        next_step = f"write some with querytruth review {options.path}"
        raise UserError("read captions", options.path, "has no captions written by people", next_step)
    latest = latest_by_target(read_decisions(log, HumanCaption))
    selected = [one for one in latest.values() if options.language in (None, one.language)]
    captions = [CaptionRecord((one.image_id,), line, one.language) for one in selected for line in one.lines]
    caption_text = "\n".join(f"{c.names[0]} {c.language} {c.text}" for c in captions)
    identity = ModelIdentity("human", hashlib.sha256(caption_text.encode()).hexdigest(), {"language": options.language})
    return StoredCaptionModel(identity, captions)
