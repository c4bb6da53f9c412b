"""Captions that a person or another tool wrote already, each found by its picture's name or digest."""

from __future__ import annotations

import hashlib
import unicodedata
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from backends.chat import (
    Answer,
    Arrived,
    ChatRequest,
    Failure,
    ModelIdentity,
    Reply,
    ShownPicture,
    as_asked,
    checked_options,
    go_on,
)
from backends.replies.written_captions import WrittenCaption, read_captions
from builders.errors import UserError

_UNKNOWN = Failure("no_caption", "final", "the file has no caption for this picture")


class Options(BaseModel):
    """`language` leaves out the captions that the file says are in another."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: Path
    language: str | None = None
    encoding: str = "utf-8"


def load(**options: Any) -> CaptionsFile:
    """The captions of a file, read at once."""
    checked = checked_options(Options, "captions_file", options)
    try:
        data = checked.path.read_bytes()
    except OSError as error:
        raise UserError("read captions", checked.path, str(error.strerror), "give a file of captions") from None
    captions = read_captions(checked.path, data, checked.encoding)
    identity = ModelIdentity(checked.path.name, hashlib.sha256(data).hexdigest(), {"language": checked.language})
    wanted = [c for c in captions if not (checked.language and c.language) or c.language == checked.language]
    return CaptionsFile(identity, wanted)


class CaptionsFile:
    """Answers a question about one picture with the caption that was written for it; the n-th to number n."""

    is_recorded = True

    def __init__(self, identity: ModelIdentity, captions: Sequence[WrittenCaption]) -> None:
        self.identity = identity
        self._captions: dict[str, list[WrittenCaption]] = defaultdict(list)  # by the whole name, digest or id
        self._whole_names: dict[str, set[str]] = defaultdict(set)  # by the last part of a name
        for caption in captions:
            names = [_plain(name) for name in caption.names]
            for name in set(names):
                self._captions[name].append(caption)
            self._whole_names[_last(names[0])].add(names[0])  # the others name the same picture

    def reply(self, requests: Sequence[ChatRequest], arrived: Arrived = go_on) -> list[Answer]:
        """All pictures should come in one call: that two of them share a bare name is seen only then."""
        shown = [_picture(request) for request in requests]
        claims: dict[str, set[str]] = defaultdict(set)
        for picture in shown:
            if picture and (found := self._by_bare_name(picture)):
                claims[found].add(_plain(picture.file_name))
        answers = [self._answer(r, p, claims) for r, p in zip(requests, shown, strict=True)]
        arrived(list(enumerate(answers)))
        return answers

    def _found(self, picture: ShownPicture) -> list[WrittenCaption] | Failure:
        """All captions of a picture, in the file's order: by digest, id or whole name, else by a bare name that is
        one picture's only in the file."""
        for name in (picture.sha256, picture.image_id, _plain(picture.file_name)):
            if name and name in self._captions:
                return self._captions[name]
        if found := self._by_bare_name(picture):
            return self._captions[found]
        candidates = self._whole_names.get(_last(_plain(picture.file_name)), set())
        if len(candidates) < 2:
            return _UNKNOWN
        return Failure("ambiguous_name", "final", "fits " + ", ".join(sorted(candidates)[:3]))

    def _by_bare_name(self, picture: ShownPicture) -> str | None:
        """The one name in the file that ends in the picture's bare name, where nothing fits better."""
        plain = _plain(picture.file_name)
        if not plain or any(name in self._captions for name in (picture.sha256, picture.image_id, plain)):
            return None
        candidates = self._whole_names.get(_last(plain), set())
        return next(iter(candidates)) if len(candidates) == 1 else None

    def _answer(self, request: ChatRequest, picture: ShownPicture | None, claims: dict[str, set[str]]) -> Answer:
        if picture is None:
            return Failure("not_one_picture", "final", "captions answer a question about one picture")
        rivals = claims.get(self._by_bare_name(picture) or "", set())
        if len(rivals) > 1:
            return Failure("ambiguous_name", "final", "the caption fits " + ", ".join(sorted(rivals)[:3]))
        found = self._found(picture)
        if isinstance(found, Failure):
            return found
        wanted = request.language
        captions = [
            caption.text for caption in found if not (wanted and caption.language) or caption.language == wanted
        ]
        if request.number >= len(captions):
            of = f" in {wanted}" if wanted and len(captions) < len(found) else ""
            return Failure("no_caption", "final", f"the file has {len(captions)} captions{of} for this picture")
        return as_asked(request, Reply(captions[request.number], "stop"))


def _picture(request: ChatRequest) -> ShownPicture | None:
    pictures = [picture for message in request.messages for picture in message.pictures]
    return pictures[0] if len(pictures) == 1 else None


def _plain(name: str) -> str:
    """A name as every system writes it: forward slashes, composed characters, no leading `./`."""
    plain = unicodedata.normalize("NFC", name.strip().replace("\\", "/"))
    while plain.startswith("./"):
        plain = plain[2:]
    return plain


def _last(name: str) -> str:
    return name.rpartition("/")[2]
