"""Captions that a person or another tool wrote beforehand, found by an image's name, id or digest."""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from backends.chat import ChatAnswer, ChatImage, ChatRequest, Failure, OnAnswers, Reply, always_continue, check_reply
from backends.file_errors import translate_read_errors
from backends.interchange.text_files import detect_language
from backends.plugin_loader import ModelIdentity, PluginOptions
from backends.regular_files import read_regular
from backends.replies.caption_files import CaptionRecord, read_caption_file

ANSWERS_ARE_WRITTEN = True
_NO_CAPTION = Failure("no_caption", "final", "the file has no caption for this picture")


class CaptionsFileOptions(PluginOptions):
    """`language` excludes captions that the file labels with another language."""

    path: Path
    language: str | None = None
    encoding: str = "utf-8"


def load(options: CaptionsFileOptions) -> StoredCaptionModel:
    """Reads the captions of a file. Raises UserError where it cannot be read or is not a file of captions."""
    with translate_read_errors("read captions", options.path, "give a file of captions"):
        data = read_regular(options.path)
    captions = read_caption_file(options.path, data, options.encoding)
    identity = ModelIdentity(options.path.name, hashlib.sha256(data).hexdigest(), {"language": options.language})
    return StoredCaptionModel(identity, _in_language(captions, options.language))


class StoredCaptionModel:
    """Answers a question about one image with a caption of it; the request's `number` selects which."""

    is_recorded = True

    def __init__(self, identity: ModelIdentity, captions: Sequence[CaptionRecord]) -> None:
        self.identity = identity
        self.languages = _list_languages(captions)
        self._captions: dict[str, list[CaptionRecord]] = defaultdict(list)  # by the whole name, digest or id
        self._whole_names: dict[str, set[str]] = defaultdict(set)  # by base name
        for caption in captions:
            names = [_normalize_name(name) for name in caption.names]
            for name in set(names):
                self._captions[name].append(caption)
            self._whole_names[_base_name(names[0])].add(names[0])  # the other names are of the same image

    def reply(self, requests: Sequence[ChatRequest], on_answers: OnAnswers = always_continue) -> list[ChatAnswer]:
        """Returns the captions. All images should come in one call, so that two with the same base name are noticed."""
        shown = [[image for message in request.messages for image in message.images] for request in requests]
        images = [some[0] if len(some) == 1 else None for some in shown]
        matches = [self._match(image) if image else None for image in images]
        images_by_name: dict[str, set[str]] = defaultdict(set)  # of the images that only a base name fits
        for image, match in zip(images, matches, strict=True):
            if image and match and len(match[0]) == 1 and not match[1]:
                images_by_name[match[0][0]].add(_normalize_name(image.file_name))
        answers = [self._answer(r, match, images_by_name) for r, match in zip(requests, matches, strict=True)]
        on_answers(list(enumerate(answers)))
        return answers

    def _match(self, image: ChatImage) -> tuple[list[str], bool]:
        """Returns the image's digest, id or whole name in the file and True, else all whole names with its base name
        and False."""
        file_name = _normalize_name(image.file_name)
        exact = [name for name in (image.sha256, image.image_id, file_name) if name and name in self._captions]
        return (exact[:1], True) if exact else (sorted(self._whole_names.get(_base_name(file_name), ())), False)

    def _answer(
        self, request: ChatRequest, match: tuple[list[str], bool] | None, images_by_name: dict[str, set[str]]
    ) -> ChatAnswer:
        if match is None:
            return Failure("not_one_image", "final", "captions answer a question about one picture")
        names, is_exact = match
        if len(names) != 1:
            return Failure("ambiguous_name", "final", "fits " + ", ".join(names[:3])) if names else _NO_CAPTION
        if not is_exact and len(images_by_name[names[0]]) > 1:
            fitting = ", ".join(sorted(images_by_name[names[0]])[:3])
            return Failure("ambiguous_name", "final", f"the caption fits {fitting}")
        captions = _in_language(self._captions[names[0]], request.language)
        if request.number >= len(captions):
            of = f" in {request.language}" if len(captions) < len(self._captions[names[0]]) else ""
            return Failure("no_caption", "final", f"the file has {len(captions)} captions{of} for this picture")
        return check_reply(request, Reply(captions[request.number].text, "stop"))


def _list_languages(captions: Sequence[CaptionRecord]) -> list[str]:
    """Returns the languages of at least a tenth of the captions, sorted; where none is labelled, that of most of
    them."""
    if labelled := Counter(caption.language for caption in captions if caption.language):
        return sorted(language for language, count in labelled.items() if 10 * count >= labelled.total())
    detected = Counter(detect_language(caption.text) for caption in captions)
    return [language for language, _ in detected.most_common(1)]


def _in_language(captions: Sequence[CaptionRecord], language: str | None) -> list[CaptionRecord]:
    """Returns the captions in a language or in an unknown one; with None all."""
    return [c for c in captions if not (language and c.language) or c.language == language]


def _normalize_name(name: str) -> str:
    """Returns the name with forward slashes and composed characters, without a leading `./`."""
    normalized = unicodedata.normalize("NFC", name.strip().replace("\\", "/"))
    while normalized.startswith("./"):
        normalized = normalized[2:]
    return normalized


def _base_name(name: str) -> str:
    return name.rpartition("/")[2]
