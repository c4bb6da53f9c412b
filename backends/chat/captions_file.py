"""Captions that a person or another tool wrote already, each found by its picture's name or digest."""

from __future__ import annotations

import hashlib
import unicodedata
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from backends.chat import (
    ChatAnswer,
    ChatImage,
    ChatRequest,
    Failure,
    OnAnswers,
    Reply,
    always_continue,
    check_reply,
)
from backends.plugin_loader import ModelIdentity, PluginOptions
from backends.replies.caption_files import CaptionRecord, read_caption_file
from builders.errors import UserError

ANSWERS_ARE_WRITTEN = True
_NO_CAPTION = Failure("no_caption", "final", "the file has no caption for this picture")


class CaptionsFileOptions(PluginOptions):
    """`language` leaves out the captions that the file says are in another."""

    path: Path
    language: str | None = None
    encoding: str = "utf-8"


def load(options: CaptionsFileOptions) -> StoredCaptionModel:
    """The captions of a file, read at once."""
    try:
        data = options.path.read_bytes()
    except OSError as error:
        raise UserError("read captions", options.path, str(error.strerror), "give a file of captions") from None
    captions = read_caption_file(options.path, data, options.encoding)
    identity = ModelIdentity(options.path.name, hashlib.sha256(data).hexdigest(), {"language": options.language})
    matching = [c for c in captions if not (options.language and c.language) or c.language == options.language]
    return StoredCaptionModel(identity, matching)


class StoredCaptionModel:
    """Answers a question about one picture with the caption that was written for it; the n-th to number n."""

    is_recorded = True

    def __init__(self, identity: ModelIdentity, captions: Sequence[CaptionRecord]) -> None:
        self.identity = identity
        self._captions: dict[str, list[CaptionRecord]] = defaultdict(list)  # by the whole name, digest or id
        self._whole_names: dict[str, set[str]] = defaultdict(set)  # by the last part of a name
        for caption in captions:
            names = [_normalize_name(name) for name in caption.names]
            for name in set(names):
                self._captions[name].append(caption)
            self._whole_names[_base_name(names[0])].add(names[0])  # the others name the same picture

    def reply(self, requests: Sequence[ChatRequest], on_answers: OnAnswers = always_continue) -> list[ChatAnswer]:
        """All pictures should come in one call: that two of them share a bare name is seen only then."""
        requested_images = [_only_image(request) for request in requests]
        claimants: dict[str, set[str]] = defaultdict(set)
        for image in requested_images:
            if image and (whole_name := self._by_bare_name(image)):
                claimants[whole_name].add(_normalize_name(image.file_name))
        answers = [self._answer(r, p, claimants) for r, p in zip(requests, requested_images, strict=True)]
        on_answers(list(enumerate(answers)))
        return answers

    def _find_captions(self, image: ChatImage) -> list[CaptionRecord] | Failure:
        """All captions of a picture, in the file's order: by digest, id or whole name, else by a bare name that is
        one picture's only in the file."""
        for name in (image.sha256, image.image_id, _normalize_name(image.file_name)):
            if name and name in self._captions:
                return self._captions[name]
        if whole_name := self._by_bare_name(image):
            return self._captions[whole_name]
        candidates = self._whole_names.get(_base_name(_normalize_name(image.file_name)), set())
        if len(candidates) < 2:
            return _NO_CAPTION
        return Failure("ambiguous_name", "final", "fits " + ", ".join(sorted(candidates)[:3]))

    def _by_bare_name(self, image: ChatImage) -> str | None:
        """The one name in the file that ends in the picture's bare name, where nothing fits better."""
        plain = _normalize_name(image.file_name)
        if not plain or any(name in self._captions for name in (image.sha256, image.image_id, plain)):
            return None
        candidates = self._whole_names.get(_base_name(plain), set())
        return next(iter(candidates)) if len(candidates) == 1 else None

    def _answer(self, request: ChatRequest, image: ChatImage | None, claimants: dict[str, set[str]]) -> ChatAnswer:
        if image is None:
            return Failure("not_one_image", "final", "captions answer a question about one picture")
        same_name_images = claimants.get(self._by_bare_name(image) or "", set())
        if len(same_name_images) > 1:
            return Failure("ambiguous_name", "final", "the caption fits " + ", ".join(sorted(same_name_images)[:3]))
        image_captions = self._find_captions(image)
        if isinstance(image_captions, Failure):
            return image_captions
        language = request.language
        captions = [
            caption.text
            for caption in image_captions
            if not (language and caption.language) or caption.language == language
        ]
        if request.number >= len(captions):
            of = f" in {language}" if language and len(captions) < len(image_captions) else ""
            return Failure("no_caption", "final", f"the file has {len(captions)} captions{of} for this picture")
        return check_reply(request, Reply(captions[request.number], "stop"))


def _only_image(request: ChatRequest) -> ChatImage | None:
    images = [image for message in request.messages for image in message.images]
    return images[0] if len(images) == 1 else None


def _normalize_name(name: str) -> str:
    """A name as every system writes it: forward slashes, composed characters, no leading `./`."""
    normalized = unicodedata.normalize("NFC", name.strip().replace("\\", "/"))
    while normalized.startswith("./"):
        normalized = normalized[2:]
    return normalized


def _base_name(name: str) -> str:
    return name.rpartition("/")[2]
