"""Captions that a person or another tool wrote (tables, JSON lines, COCO), found by an image's name or id."""

from __future__ import annotations

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from querytruth.backends.files.durable_files import file_sha256
from querytruth.backends.files.table_rows import OBJECT_SUFFIXES, iterate_rows, open_lines, read_columns, refuse_objects
from querytruth.backends.files.text_formats import detect_language, parse_json
from querytruth.backends.models import chat
from querytruth.backends.plugins import ModelIdentity, PluginOptions
from querytruth.errors import UserError, translate_read_errors

NAME_COLUMNS = ("file_name", "path", "image", "image_id", "sha256")
TEXT_COLUMNS = ("caption", "captions", "text")
_STAGE = "read captions"
ANSWERS_ARE_WRITTEN = True
_NO_CAPTION = chat.Failure("no_caption", "final", "the file has no caption for this image")


@dataclass(frozen=True, slots=True)
class CaptionRecord:
    """A caption, its language where the file gives one, and the names of its image in the file."""

    names: tuple[str, ...]
    text: str
    language: str = ""


CaptionRow = tuple[CaptionRecord, dict[str, Any]]


def read_caption_file(path: Path, encoding: str = "utf-8", optional: Sequence[str] = ()) -> list[CaptionRow]:
    """Return all captions that are not empty, in the order of the file, each with its row: also these optional columns
    of it. The suffix determines the format. Raises UserError for what cannot be read."""
    rows = _coco(path, encoding) if path.suffix.lower() == ".json" else _iterate_table(path, encoding, optional)
    return [(caption, row) for caption, row in rows if caption.text.strip()]


def _iterate_table(path: Path, encoding: str, optional: Sequence[str]) -> Iterator[CaptionRow]:
    if path.suffix.lower() not in OBJECT_SUFFIXES:  # each of them has keys of its own
        columns = read_columns(path, _STAGE, encoding)
        if not set(columns) & set(NAME_COLUMNS) or not set(columns) & set(TEXT_COLUMNS):
            next_step = f"give an image column ({', '.join(NAME_COLUMNS)}) and a text ({', '.join(TEXT_COLUMNS)})"
            raise UserError(_STAGE, path, f"has only the columns {', '.join(columns[:10]) or 'none'}", next_step)
    wanted = [*NAME_COLUMNS, *TEXT_COLUMNS, "language", *optional]
    for place, row in iterate_rows(path, (), wanted, _STAGE, encoding, objects=True):
        yield from _of_record(place, row)


def _coco(path: Path, encoding: str) -> Iterator[CaptionRow]:
    """Yield the captions of COCO: `images` with names, `annotations` with image ids and captions; or a plain list of
    records."""
    try:
        whole = parse_json("".join(text for _, text, _ in open_lines(path, _STAGE, encoding, [])))
    except (ValueError, RecursionError) as error:
        raise UserError(_STAGE, path, f"is not JSON ({error})", "fix it") from None
    if isinstance(whole, list):
        for number, record in enumerate(whole, start=1):
            yield from _of_record(f"{path} line {number}", record)
        return
    images, annotations = (whole.get(key) if isinstance(whole, dict) else None for key in ("images", "annotations"))
    if not isinstance(images, list) or not isinstance(annotations, list):
        reason = "has no lists `images` and `annotations`"
        raise UserError(_STAGE, path, reason, "give COCO captions, a table or JSON lines")
    complete = [image for image in images if isinstance(image, dict) and {"id", "file_name"} <= image.keys()]
    names = {str(image["id"]): str(image["file_name"]) for image in complete}
    for number, record in enumerate(annotations, start=1):
        image = str(record.get("image_id")) if isinstance(record, dict) else ""
        if image not in names or not isinstance(record.get("caption"), str):
            raise UserError(_STAGE, f"{path} annotation {number}", "has an unknown image_id or no caption", "fix it")
        yield CaptionRecord((names[image],), record["caption"]), {}


def _of_record(place: str, record: object) -> Iterable[CaptionRow]:
    """Return the captions of a record: several where its caption is a list, none where its image's name is null."""
    if not isinstance(record, dict):
        raise UserError(_STAGE, place, "is not a JSON object", "fix that line")
    refuse_objects(place, _STAGE, [record.get(column) for column in NAME_COLUMNS])
    names = tuple(str(record[column]) for column in NAME_COLUMNS if record.get(column) not in (None, ""))
    if {record[column] for column in NAME_COLUMNS if column in record} == {None}:
        return []
    given = next((record[column] for column in TEXT_COLUMNS if record.get(column) is not None), None)
    texts = given if isinstance(given, list) else [] if given is None else [given]
    if not names or not all(isinstance(text, str) for text in texts):
        raise UserError(_STAGE, place, "does not name an image, or its caption is not a text", "fix that line")
    return [(CaptionRecord(names, text, str(record.get("language") or "")), record) for text in texts]


class CaptionsFileOptions(PluginOptions):
    """`language` excludes captions that the file labels with another language."""

    path: Path
    language: str | None = None
    encoding: str = "utf-8"


def load(options: CaptionsFileOptions) -> StoredCaptionModel:
    """Read the captions of a file. Raises UserError where it cannot be read or is not a file of captions."""
    with translate_read_errors("read captions", options.path, "give a file of captions"):
        captions = [caption for caption, _ in read_caption_file(options.path, options.encoding)]
        sha256, _ = file_sha256(options.path)
    identity = ModelIdentity(options.path.name, sha256, {"language": options.language})
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

    def reply(
        self, requests: Sequence[chat.ChatRequest], on_answers: chat.OnAnswers = chat.always_continue
    ) -> list[chat.ChatAnswer]:
        """Return the captions. All images should come in one call, so that two with the same base name are noticed."""
        answers = [_choose(*pair) for pair in zip(requests, self._find(requests), strict=True)]
        on_answers(list(enumerate(answers)))
        return answers

    def find_texts(self, requests: Sequence[chat.ChatRequest]) -> list[list[str] | chat.Failure]:
        """Return, per question, all captions of its image in its language, or the failure."""
        found = self._find(requests)
        own = [one if isinstance(one, chat.Failure) else _in_language(one, request.language)
               for request, one in zip(requests, found, strict=True)]  # fmt: skip
        return [one if isinstance(one, chat.Failure) else [c.text for c in one] or _NO_CAPTION for one in own]

    def _find(self, requests: Sequence[chat.ChatRequest]) -> list[list[CaptionRecord] | chat.Failure]:
        shown = [[image for message in request.messages for image in message.images] for request in requests]
        images = [some[0] if len(some) == 1 else None for some in shown]
        matches = [self._match(image) if image else None for image in images]
        images_by_name: dict[str, set[str]] = defaultdict(set)  # of the images that only a base name fits
        for image, match in zip(images, matches, strict=True):
            if image and match and len(match[0]) == 1 and not match[1]:
                images_by_name[match[0][0]].add(_normalize_name(image.file_name))
        return [self._captions_of(match, images_by_name) for match in matches]

    def _match(self, image: chat.ChatImage) -> tuple[list[str], bool]:
        """Return the image's digest, id or whole name in the file and True, else all whole names with its base name
        and False."""
        file_name = _normalize_name(image.file_name)
        exact = [name for name in (image.sha256, image.image_id, file_name) if name and name in self._captions]
        return (exact[:1], True) if exact else (sorted(self._whole_names.get(_base_name(file_name), ())), False)

    def _captions_of(
        self, match: tuple[list[str], bool] | None, images_by_name: dict[str, set[str]]
    ) -> list[CaptionRecord] | chat.Failure:
        if match is None:
            return chat.Failure("not_one_image", "final", "captions answer only questions about exactly one image")
        names, is_exact = match
        if len(names) != 1:
            return chat.Failure("ambiguous_name", "final", "fits " + ", ".join(names[:3])) if names else _NO_CAPTION
        if not is_exact and len(images_by_name[names[0]]) > 1:
            fitting = ", ".join(sorted(images_by_name[names[0]])[:3])
            return chat.Failure("ambiguous_name", "final", f"the caption matches several images: {fitting}")
        return self._captions[names[0]]


def _choose(request: chat.ChatRequest, found: list[CaptionRecord] | chat.Failure) -> chat.ChatAnswer:
    if isinstance(found, chat.Failure):
        return found
    captions = _in_language(found, request.language)
    if request.number >= len(captions):
        of = f" in {request.language}" if len(captions) < len(found) else ""
        return chat.Failure("no_caption", "final", f"the file has {len(captions)} captions{of} for this image")
    return chat.check_reply(request, chat.Reply(captions[request.number].text, "stop"))


def _list_languages(captions: Sequence[CaptionRecord]) -> list[str]:
    """Return the languages of at least a tenth of the captions, sorted; where none is labelled, that of most of
    them."""
    if labelled := Counter(caption.language for caption in captions if caption.language):
        return sorted(language for language, count in labelled.items() if 10 * count >= labelled.total())
    detected = Counter(detect_language(caption.text) for caption in captions)
    return [language for language, _ in detected.most_common(1)]


def _in_language(captions: Sequence[CaptionRecord], language: str | None) -> list[CaptionRecord]:
    """Return the captions in a language or in an unknown one; with None all."""
    return [c for c in captions if not (language and c.language) or c.language == language]


def _normalize_name(name: str) -> str:
    """Return the name with forward slashes and composed characters, without a leading `./`."""
    normalized = unicodedata.normalize("NFC", name.strip().replace("\\", "/"))
    while normalized.startswith("./"):
        normalized = normalized[2:]
    return normalized


def _base_name(name: str) -> str:
    return name.rpartition("/")[2]
