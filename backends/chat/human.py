"""A person: captions that were written on the review page of a gallery. No model, no network."""

from __future__ import annotations

import hashlib
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from backends.chat import ModelIdentity, checked_options
from backends.chat.captions_file import CaptionsFile
from backends.replies.written_captions import WrittenCaption
from backends.sets import caption_log
from builders.errors import UserError
from builders.hand_captions import standing


class Options(BaseModel):
    """`path`: the gallery's folder, or a version in it. `language` leaves out the captions in another."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: Path
    language: str | None = None


def load(**options: object) -> CaptionsFile:
    """The captions that stand in a gallery's log, read at once; each line of a text is a caption."""
    checked = checked_options(Options, "human", options)
    log = next((f for f in (checked.path, checked.path.parent) if (f / caption_log.NAME).is_file()), None)
    if log is None:
        next_step = f"write some with querytruth review {checked.path}"
        raise UserError("read captions", checked.path, "has no captions that a person wrote", next_step)
    stand = standing(caption_log.read_on(log)[0])
    wanted = [one for one in stand.values() if checked.language in (None, one.language)]
    captions = [WrittenCaption((one.image_id,), line, one.language) for one in wanted for line in one.lines]
    said = "\n".join(f"{c.names[0]} {c.language} {c.text}" for c in captions)
    identity = ModelIdentity("human", hashlib.sha256(said.encode()).hexdigest(), {"language": checked.language})
    return CaptionsFile(identity, captions)
