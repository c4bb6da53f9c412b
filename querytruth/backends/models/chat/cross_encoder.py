"""Cross-encoders of sentence-transformers, in process: how well an image, or its captions, fit a query.

`PairModel` is what models in process that score pairs have in common.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from PIL import Image
from pydantic import Field

from querytruth.array_types import Vectors
from querytruth.backends.environment import translate_environment_faults
from querytruth.backends.files.option_paths import PathOrName
from querytruth.backends.models import chat, hub_models
from querytruth.backends.models.chat import captions_file
from querytruth.backends.models.request_images import open_upright
from querytruth.backends.plugins import ModelIdentity, PluginOptions
from querytruth.errors import UserError

TAKES_PAIRS = True
_STAGE = "load judge"
Document = Image.Image | Vectors | list[str]  # what is compared with a query: an image, its vector, or its captions


class PairOptions(PluginOptions):
    """`name`: a model's folder, or its name on the hub; `captions`: a file of captions to compare instead of the
    images; `device`: null uses a GPU if there is one; `batch`: pairs scored at once."""

    name: PathOrName
    captions: Path | None = None
    device: str | None = None
    batch: int = Field(16, ge=1)


class PairModel:
    """A model that scores queries with images, or with captions of images. Children give `identity` and `score`."""

    is_recorded = False
    identity: ModelIdentity

    def __init__(self, options: PairOptions) -> None:
        self.options = options
        self._captions = read_captions(options.captions)

    @property
    def compared(self) -> dict[str, str]:
        """Return the parameters of the identity that describe what is compared with a query."""
        return {} if self._captions is None else {"captions": self._captions.identity.revision[:12]}

    def show(self, image: chat.ChatImage) -> Document | chat.Failure:
        """Return the upright image, which is compared where there are no captions, or why it cannot be read."""
        return open_upright(image)

    def score(self, pairs: list[tuple[chat.ChatRequest, Document]]) -> Sequence[float]:
        """Return a number per pair, on whatever scale."""
        raise NotImplementedError

    def reply(
        self, requests: Sequence[chat.ChatRequest], on_answers: chat.OnAnswers = chat.always_continue
    ) -> list[chat.ChatAnswer]:
        """Return the scores, a batch at a time."""
        answers: list[chat.ChatAnswer] = [chat.NOT_ASKED] * len(requests)
        texts = None if self._captions is None else self._captions.find_texts(requests)
        for start in range(0, len(requests), self.options.batch):
            places = range(start, min(start + self.options.batch, len(requests)))
            shown: dict[int, Document | chat.Failure] = {place: texts[place] for place in places} if texts else {}
            shown = shown or self._show_all(requests, places)
            pairs = [(place, one) for place, one in shown.items() if not isinstance(one, chat.Failure)]
            scores = self.score([(requests[place], one) for place, one in pairs]) if pairs else []
            done: list[tuple[int, chat.ChatAnswer]] = [
                (place, one) for place, one in shown.items() if isinstance(one, chat.Failure)
            ]
            done += [(pair[0], chat.make_score_reply(float(one))) for pair, one in zip(pairs, scores, strict=True)]
            for place, answer in done:
                answers[place] = answer
            if not on_answers(done):
                break
        return answers

    def _show_all(self, requests: Sequence[chat.ChatRequest], places: range) -> dict[int, Document | chat.Failure]:
        asked = {place: requests[place].messages[0].images[0] for place in places}
        shown = {image: self.show(image) for image in dict.fromkeys(asked.values())}
        return {place: shown[image] for place, image in asked.items()}


def read_captions(path: Path | None) -> captions_file.StoredCaptionModel | None:
    """Return the captions of a file, by their images."""
    return None if path is None else captions_file.load(captions_file.CaptionsFileOptions(path=path))


def load(options: PairOptions) -> CrossEncoderModel:
    """Return the model; its weights are read with the first question."""
    return CrossEncoderModel(options)


class CrossEncoderModel(PairModel):
    """A cross-encoder. Of several captions of an image the one that fits best counts."""

    def __init__(self, options: PairOptions) -> None:
        super().__init__(options)
        name, revision = hub_models.resolve_model_revision(options.name, None)
        self.identity = ModelIdentity(name, revision, self.compared)

    @cached_property
    def _model(self) -> Any:
        from sentence_transformers import CrossEncoder

        name = self.options.name
        folder = hub_models.find_model_folder(name, _STAGE)
        hub_models.silence_transformers()
        device, weights = str(hub_models.choose_device(self.options.device, _STAGE)), {"use_safetensors": True}
        try:
            model = CrossEncoder(
                str(folder), device=device, local_files_only=True, model_kwargs=weights, **hub_models.WITHOUT_CODE
            )
        except Exception as error:  # a broken file or a missing library can raise anything
            raise hub_models.make_loading_error(_STAGE, name, error) from None
        if model.num_labels != 1:
            next_step = "name a reranking model"
            raise UserError(_STAGE, name, f"returns {model.num_labels} numbers per pair, not one", next_step)
        if self._captions is None and not model.supports("image"):
            reason, next_step = "reads texts only, not images", "set captions=FILE, or name a model that reads images"
            raise UserError(_STAGE, name, reason, next_step)
        return model.eval()

    def score(self, pairs: list[tuple[chat.ChatRequest, Document]]) -> Sequence[float]:
        """Return the model's score of each pair."""
        shown = [one if isinstance(one, list) else [one] for _, one in pairs]
        flat = [(one.messages[0].text, part) for (one, _), parts in zip(pairs, shown, strict=True) for part in parts]
        with translate_environment_faults("ask judge", self.identity.name, self._model):
            scores = iter(self._model.predict(flat, batch_size=self.options.batch, show_progress_bar=False).tolist())
        return [max(next(scores) for _ in parts) for parts in shown]
