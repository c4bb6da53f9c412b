"""Match the documents beside photos to the photos, by names alone.

`a.jpg.xmp` and `a.xmp` (all images with that stem) are XMP; `a.yml` is PhotoPrism's. Google Takeout names the document
of `a.jpg` `a.jpg.json` or `a.jpg.supplemental-metadata.json`, cut after 46 characters; a counter moves to the end
(`a(1).jpg`: `a.jpg(1).json`), and an edited copy shares the document of its original.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import PurePosixPath

_SUFFIXES = r"\.(jpe?g|jpe|png|webp|hei[cf]|tiff?|gif|bmp|avif)"
DOCUMENT_SUFFIXES = (".xmp", ".json", ".yml", ".yaml")
_ALBUM = r"(metadata|metadaten|métadonnées|metadatos|metadati|metadados|元数据)\.json"
_TAKEOUT_CHARACTERS = 46
_SUPPLEMENT = ".supplemental-metadata"
_COUNTER = re.compile(r"\(\d+\)$")
_EDITED = re.compile(r"-(edited|bearbeitet|modifié|editado|modificato|bewerkt|已修改|已编辑)$")


def find_documents(names: Iterable[str]) -> tuple[list[str], dict[str, list[str]]]:
    """Return the images among the names of files ("/" between folders), sorted, and by document the images that it is
    about: none where no image fits."""
    images, documents = list[PurePosixPath](), list[PurePosixPath]()
    for path in sorted(map(PurePosixPath, names)):
        if re.fullmatch(_SUFFIXES, path.suffix, re.IGNORECASE):
            images.append(path)
        elif path.suffix.lower() in DOCUMENT_SUFFIXES:
            documents.append(path)
    known: dict[tuple[PurePosixPath, str], list[str]] = defaultdict(list)
    of_folder: dict[PurePosixPath, list[str]] = defaultdict(list)
    for image in images:
        of_folder[image.parent].append(str(image))
        for stem in _list_stems(image.name, image.stem, image.suffix):
            known[image.parent, stem].append(str(image))
    about = {}
    for path in documents:
        stem = path.name[: -len(path.suffix)]
        is_album = re.fullmatch(_ALBUM, path.name, re.IGNORECASE)
        about[str(path)] = of_folder[path.parent] if is_album else known.get((path.parent, stem), [])
    return [str(image) for image in images], about


def _list_stems(name: str, stem: str, suffix: str) -> set[str]:
    """Return the stems of documents that are about an image."""
    counter = found[0] if (found := _COUNTER.search(stem)) else ""
    stems = {name, stem}
    for title in (name, f"{_EDITED.sub('', stem.removesuffix(counter))}{suffix}"):
        whole, added = title + _SUPPLEMENT, counter if title != name else ""
        lengths = range(min(len(title), _TAKEOUT_CHARACTERS), min(len(whole), len(title) + len(_SUPPLEMENT)) + 1)
        stems |= {whole[:length] + added for length in lengths}
    return stems
