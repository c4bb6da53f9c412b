"""Text generation in process, through transformers: batches as large as memory takes, and what came of each question.

torch and transformers are imported with the first question, and weights are read then.
"""

from __future__ import annotations

import gc
import hashlib
import importlib
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from backends.chat import NOT_ASKED, Answer, Arrived, ChatRequest, Failure, Parameters, Reply, as_asked
from backends.replies.reply_store import canonical
from builders.errors import UserError

Conversation = list[dict[str, Any]]  # messages; a content is a text, or parts {"type": "image"} and {"type": "text"}
_Question = tuple[ChatRequest, Conversation]
_ON_CPU, _ON_GPU = 8, 64  # questions in a batch to begin with; halved when memory runs out
_HALF_A_CHARACTER = "\ufffd"


class LocalOptions(BaseModel):
    """Which weights, where, and how to generate. What is None is as the model's own generation_config.json has it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    revision: str | None = None
    device: str = "auto"
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    batch_size: int | None = Field(None, ge=1)
    do_sample: bool = False
    num_beams: int = Field(1, ge=1)
    max_new_tokens: int = Field(1024, ge=1)
    min_new_tokens: int = Field(0, ge=0)
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    repetition_penalty: float | None = None
    length_penalty: float | None = None

    def generation(self) -> dict[str, Any]:
        """What of this the texts depend on."""
        names = [name for name in LocalOptions.model_fields if name not in _NOT_ABOUT_TEXTS]
        return {name: value for name in names if (value := getattr(self, name)) is not None}


_NOT_ABOUT_TEXTS = ("name", "revision", "device", "dtype", "batch_size")


class Weights(Protocol):
    """A model that is loaded: what differs between texts alone and texts with pictures."""

    model: Any
    tokenizer: Any

    def size(self, request: ChatRequest) -> int:
        """About how long a question is: like goes with like into a batch."""
        ...

    def conversation(self, request: ChatRequest) -> Conversation | Failure:
        """The question in the words of transformers' chat templates, pictures decoded, or why it cannot be put."""
        ...

    def encode(self, conversations: list[Conversation]) -> Any:
        """The batch as tensors, padded on the left."""
        ...


class Generator:
    """Answers questions with loaded weights."""

    def __init__(self, weights: Weights, options: LocalOptions) -> None:
        self._weights, self._options = weights, options
        self._batch = options.batch_size or (_ON_CPU if weights.model.device.type == "cpu" else _ON_GPU)

    def reply(self, requests: Sequence[ChatRequest], arrived: Arrived) -> list[Answer]:
        answers: list[Answer] = [NOT_ASKED] * len(requests)
        for places in self._batches(requests):
            put = [(place, self._weights.conversation(requests[place])) for place in places]
            sound = [(place, said) for place, said in put if not isinstance(said, Failure)]
            generated = self._generated([(requests[place], said) for place, said in sound])
            done: list[tuple[int, Answer]] = [(place, said) for place, said in put if isinstance(said, Failure)]
            done += zip((place for place, _ in sound), generated, strict=True)
            for place, answer in done:
                answers[place] = answer
            if not arrived(done):
                break
        return answers

    def _batches(self, requests: Sequence[ChatRequest]) -> Iterator[list[int]]:
        """Places of questions with the same parameters, short ones first; each batch as large as memory took so far."""
        alike: dict[str, list[int]] = defaultdict(list)
        for place, request in enumerate(requests):
            alike[canonical(request.parameters.given())].append(place)
        for group in alike.values():
            rest = sorted(group, key=lambda place: self._weights.size(requests[place]))
            while rest:
                batch, rest = rest[: self._batch], rest[self._batch :]
                yield batch

    def _generated(self, questions: Sequence[_Question]) -> list[Answer]:
        """A batch that fails is halved until the question that it fails on stands alone."""
        if not questions:
            return []
        try:
            return self._once(questions)
        except Exception as error:  # at the edge of one batch: transformers raises whatever it likes
            is_memory = _is_out_of_memory(error)
            detail = "" if is_memory else " ".join(f"{type(error).__name__}: {error}".split())[:200]
        if len(questions) == 1:
            return [Failure("out_of_memory" if is_memory else "generation_failed", "transient", detail)]
        middle = len(questions) // 2
        if is_memory:
            _free_memory()
            self._batch = min(self._batch, middle)
        return self._generated(questions[:middle]) + self._generated(questions[middle:])

    def _once(self, questions: Sequence[_Question]) -> list[Answer]:
        torch, _ = imported()
        from backends.models import beams  # it needs transformers to be there

        weights, model = self._weights, self._weights.model
        inputs = {
            name: tensor.to(model.device, model.dtype if tensor.is_floating_point() else tensor.dtype)
            for name, tensor in weights.encode([conversation for _, conversation in questions]).items()
        }
        config = self._config(questions[0][0].parameters)
        if config.do_sample:
            torch.manual_seed(_seed([request for request, _ in questions]))
        with torch.inference_mode():
            sequences = beams.generate(model, inputs, config)
        new = sequences[:, inputs["input_ids"].shape[1] :].tolist()
        lengths = inputs["attention_mask"].sum(dim=1).tolist()
        ends = config.eos_token_id if isinstance(config.eos_token_id, list) else [config.eos_token_id]
        return [
            self._answer(request, tokens, set(ends), length)
            for (request, _), tokens, length in zip(questions, new, lengths, strict=True)
        ]

    def _config(self, asked: Parameters) -> Any:
        """The options, and over them what the question says. A question that sets its own length is not held to the
        options' least one."""
        _, transformers = imported()
        chosen = self._options.generation()
        if asked.max_tokens is not None:
            chosen |= {"max_new_tokens": asked.max_tokens, "min_new_tokens": 0}
        if asked.min_tokens is not None:
            chosen["min_new_tokens"] = asked.min_tokens
        if asked.temperature is not None:
            chosen |= {"do_sample": asked.temperature > 0, "temperature": asked.temperature or None}
        if chosen["do_sample"]:
            chosen["num_beams"] = 1
        own, tokenizer = self._weights.model.generation_config, self._weights.tokenizer
        ends = own.eos_token_id if own.eos_token_id is not None else tokenizer.eos_token_id
        padding = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
        return transformers.GenerationConfig(**chosen, eos_token_id=ends, pad_token_id=padding)

    def _answer(self, request: ChatRequest, tokens: list[int], ends: set[int], prompt_tokens: int) -> Answer:
        stop = next((place for place, token in enumerate(tokens) if token in ends), None)
        written = tokens if stop is None else tokens[:stop]
        count = len(tokens) if stop is None else stop + 1
        decode = self._weights.tokenizer.decode
        text = decode(written, skip_special_tokens=True)
        raw = decode(tokens[:count], skip_special_tokens=False)
        if stop is None:
            text = text.rstrip(_HALF_A_CHARACTER)  # the limit fell between the bytes of a character
        if not text.strip():
            return Failure("empty_content", "final", "the text is empty", raw)
        return as_asked(request, Reply(text, "length" if stop is None else "stop", prompt_tokens, count, raw))


def loaded(name: str, revision: str, options: LocalOptions, auto_class: str) -> Any:
    """The weights on the device that suits them best: a GPU in half precision, else the processor in full."""
    torch, transformers = imported()
    if not sys.stderr.isatty():
        transformers.utils.logging.disable_progress_bar()
    device = options.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    dtype = options.dtype
    if dtype == "auto":
        is_bfloat = device.startswith("cuda") and torch.cuda.is_bf16_supported()
        dtype = "float32" if device == "cpu" else "bfloat16" if is_bfloat else "float16"
    try:
        model = getattr(transformers, auto_class).from_pretrained(
            name, revision=hub_revision(revision), dtype=getattr(torch, dtype)
        )
        return model.to(device).eval()
    except Exception as error:  # a folder can be wrong in every way, a device too
        raise cannot_load(name, error) from None


def imported() -> tuple[Any, Any]:
    """torch and transformers; a UserError says what to install."""
    try:
        return importlib.import_module("torch"), importlib.import_module("transformers")
    except ImportError as error:
        raise UserError("load chat model", error.name, "is not installed", "set up again: pip install -e .") from None


def hub_revision(revision: str) -> str | None:
    """What the hub knows of a revision: folders have none."""
    return None if revision.startswith("files:") else revision


def cannot_load(name: str, error: Exception) -> UserError:
    """transformers' first line, which says most."""
    words = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return UserError("load chat model", name, words[:200], "give the folder or the hub's name of a model of this kind")


def _is_out_of_memory(error: Exception) -> bool:
    words = str(error).lower()
    of_memory = ("out of memory", "can't allocate memory", "not enough memory", "cannot allocate memory")
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and any(w in words for w in of_memory))


def _free_memory() -> None:
    torch, _ = imported()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _seed(requests: Sequence[ChatRequest]) -> int:
    """The questions' own seed, or one drawn from what is asked: no random stream's position matters."""
    if (seed := requests[0].parameters.seed) is not None:
        return seed
    described = canonical([request.described() for request in requests])
    return int.from_bytes(hashlib.sha256(described.encode()).digest()[:4])
