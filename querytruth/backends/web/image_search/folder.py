"""A local folder with captions as an image search: offline, and the same on every machine.

A query finds an image if one of its captions has all words of the query: as whole words in languages with spaces (a
plural s is ignored), as substrings in Chinese and other languages without. The shortest captions come first.
"""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path
from typing import Any

from querytruth.backends.files.durable_files import file_sha256
from querytruth.backends.images.image_folder import ImageFolder
from querytruth.backends.models.chat.captions_file import read_caption_file
from querytruth.backends.plugins import ModelIdentity, PluginOptions
from querytruth.backends.web.image_search import FetchPage, ImageCandidate, SearchResult, parse_side, visible_text
from querytruth.errors import UserError, translate_read_errors

_STAGE = "read image index"
_METADATA_COLUMNS = ("page_url", "licence", "creator", "width", "height")
_UNSPACED = re.compile(  # Thai, Lao, Burmese, Khmer; kana and Chinese characters
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
_WORD = re.compile(r"\w+")
Entries = dict[str, tuple[dict[str, Any], list[str]]]


class FolderSearchOptions(PluginOptions):
    """`index` lists images with their captions: a table (file_name, caption, and optionally page_url, licence, creator,
    width, height), JSON lines or COCO. `images` is their folder, by default the folder of the index."""

    index: Path
    images: Path | None = None
    encoding: str = "utf-8"

    @property
    def image_folder(self) -> Path:
        """Return the folder of the images."""
        return self.images or self.index.parent


def load(options: FolderSearchOptions) -> FolderSearch:
    """Read the index. Raises UserError where it cannot be read, lacks a column, or has no image in the folder."""
    with translate_read_errors(_STAGE, options.index, "give a file that names images and captions"):
        entries = _read_entries(options.index, options.encoding)
        sha256, _ = file_sha256(options.index)
    folder = ImageFolder(options.image_folder)
    if entries and not any(isinstance(folder.find(name), Path) for name in entries):
        reason = f"{options.image_folder} has none of its {len(entries):,} images, such as {next(iter(entries))}"
        raise UserError(_STAGE, options.index, reason, "set collect.options.images to their folder")
    return FolderSearch(ModelIdentity("folder", sha256), entries, folder)


class FolderSearch:
    """Finds images by their captions. `entries`: of each image its metadata and captions, by file name."""

    def __init__(self, identity: ModelIdentity, entries: Entries, folder: ImageFolder) -> None:
        self.identity, self._folder, self._entries = identity, folder, entries
        self._captions = {
            name: [(_normalize_text(text), text) for text in captions] for name, (_, captions) in entries.items()
        }

    def search(self, query: str, limit: int, fetch: FetchPage) -> SearchResult:
        """Return the images whose captions fit; fetches nothing."""
        terms = _normalize_text(query).split()
        matches = [
            (len(normalized), name, text)
            for name, captions in self._captions.items()
            for normalized, text in [_shortest(captions, terms)]
            if normalized
        ]
        matches.sort(key=lambda one: one[:2])
        return SearchResult(len(matches), tuple(self._candidate(name, text) for _, name, text in matches[:limit]))

    def _candidate(self, name: str, caption: str) -> ImageCandidate:
        path, (metadata, _) = self._folder.find(name), self._entries[name]
        return ImageCandidate(
            name,
            caption=visible_text(caption),
            path=str(path) if isinstance(path, Path) else None,
            page_url=visible_text(metadata.get("page_url")),
            licence=visible_text(metadata.get("licence")),
            creator=visible_text(metadata.get("creator")),
            width=parse_side(metadata.get("width")),
            height=parse_side(metadata.get("height")),
        )


def _shortest(captions: list[tuple[str, str]], terms: list[str]) -> tuple[str, str]:
    fitting = [(plain, text) for plain, text in captions if terms and _fits(plain, terms)]
    return min(fitting, key=lambda one: (len(one[0]), one), default=("", ""))


def _fits(caption: str, terms: list[str]) -> bool:
    if not all(term.rstrip("s") in caption for term in terms):  # fast: excludes most captions
        return False
    words = {_singular(word) for word in _WORD.findall(caption)}
    return all(_UNSPACED.search(term) or _singular(term) in words for term in terms)


def _singular(word: str) -> str:
    return word.removesuffix("s") if len(word) > 2 and not word.endswith("ss") else word


def _normalize_text(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _read_entries(path: Path, encoding: str) -> Entries:
    """Read rows of an image and a caption, or of an image and a list of captions."""
    entries: Entries = {}
    for caption, row in read_caption_file(path, encoding, _METADATA_COLUMNS):
        entries.setdefault(caption.names[0], (row, []))[1].append(caption.text)
    return entries
