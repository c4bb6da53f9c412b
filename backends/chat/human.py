"""A person: captions that were written on the review page of a gallery. No model, no network."""

from __future__ import annotations

import hashlib
from pathlib import Path

from backends.chat.captions_file import StoredCaptionModel
from backends.plugin_loader import ModelIdentity, PluginOptions
from backends.replies.caption_files import CaptionRecord
from backends.sets import caption_log
from builders.errors import UserError
from builders.human_captions import effective_human_captions

ANSWERS_ARE_WRITTEN = True


class HumanCaptionOptions(PluginOptions):
    """`path`: the gallery's folder, or a version in it. `language` leaves out the captions in another."""

    path: Path
    language: str | None = None


def load(options: HumanCaptionOptions) -> StoredCaptionModel:
    """The captions that stand in a gallery's log, read at once; each line of a text is a caption."""
    log = next((f for f in (options.path, options.path.parent) if (f / caption_log.CAPTION_LOG_NAME).is_file()), None)
    if log is None:
        next_step = f"write some with querytruth review {options.path}"
        raise UserError("read captions", options.path, "has no captions that a person wrote", next_step)
    effective = effective_human_captions(caption_log.read_captions_from(log)[0])
    selected = [one for one in effective.values() if options.language in (None, one.language)]
    captions = [CaptionRecord((one.image_id,), line, one.language) for one in selected for line in one.lines]
    caption_text = "\n".join(f"{c.names[0]} {c.language} {c.text}" for c in captions)
    identity = ModelIdentity("human", hashlib.sha256(caption_text.encode()).hexdigest(), {"language": options.language})
    return StoredCaptionModel(identity, captions)
