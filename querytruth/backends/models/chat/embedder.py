"""The cosine of a query and an image as a judge, by an embedder; or of a query and the nearest caption of an image."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from PIL import Image

from querytruth.array_types import Vectors
from querytruth.backends.models.chat import ChatImage, ChatRequest, Failure
from querytruth.backends.models.chat.cross_encoder import Document, PairModel, PairOptions
from querytruth.backends.models.embedders import load_image_text_embedder, load_text_embedder
from querytruth.backends.models.request_images import open_upright
from querytruth.backends.plugins import ModelIdentity

TAKES_PAIRS = True


class EmbedderJudgeOptions(PairOptions):
    """`name` may be the YAML file of an embedder, such as that of an endpoint. The device is the embedder's own."""

    batch: int = 64


def load(options: EmbedderJudgeOptions) -> EmbedderJudge:
    """Return the judge. Raises UserError for an embedder that cannot compare these."""
    return EmbedderJudge(options)


class EmbedderJudge(PairModel):
    """An embedder. Each text and each image is encoded once."""

    def __init__(self, options: EmbedderJudgeOptions) -> None:
        super().__init__(options)
        load_embedder = load_image_text_embedder if options.captions is None else load_text_embedder
        self._embedder: Any = load_embedder(options.name)
        self.identity = ModelIdentity(self._embedder.name, self._embedder.revision, self.compared)
        self._texts: dict[str, Vectors] = {}
        self._images: dict[str, Vectors] = {}  # by the digest of the file

    def show(self, image: ChatImage) -> Document | Failure:
        """Return the vector of an image that was encoded before, else the image."""
        return self._images[image.sha256] if image.sha256 in self._images else open_upright(image)

    def score(self, pairs: list[tuple[ChatRequest, Document]]) -> Sequence[float]:
        """Return the cosines, of several captions the highest."""
        asked = [(request.messages[0].text, request.messages[0].images[0].sha256, one) for request, one in pairs]
        listed = [part for _, _, one in asked if isinstance(one, list) for part in one] + [text for text, _, _ in asked]
        _add_new(self._texts, {text: text for text in listed}, self._embedder.encode_texts)
        if images := {key: one for _, key, one in asked if isinstance(one, Image.Image)}:
            _add_new(self._images, images, self._embedder.encode_images)
        found = [
            [self._texts[part] for part in one] if isinstance(one, list) else [self._images[key]]
            for _, key, one in asked
        ]
        queries = [self._texts[text] for text, _, _ in asked]
        return [max(float(query @ one) for one in some) for query, some in zip(queries, found, strict=True)]


def _add_new(known: dict[str, Vectors], wanted: dict[str, Any], encode: Callable[[list[Any]], Vectors]) -> None:
    new = {key: one for key, one in wanted.items() if key not in known}
    known.update(zip(new, encode(list(new.values())), strict=True) if new else ())
