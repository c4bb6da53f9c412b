"""Text generation in process, through transformers, in batches as large as memory allows.

torch and transformers are imported, and weights are loaded, with the first question.
"""

import gc
import hashlib
import importlib
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol

from PIL import Image
from pydantic import Field

from querytruth.backends import environment
from querytruth.backends.files.option_paths import PathOrName
from querytruth.backends.models import chat, chat_completion, hub_models
from querytruth.backends.models.stored_answers import canonical_json_text
from querytruth.backends.plugins import ModelIdentity, PluginOptions, missing_library_error
from querytruth.errors import UserError

Conversation = list[dict[str, Any]]  # messages; a content is a text, or parts {"type": "image"} and {"type": "text"}
_Question = tuple[chat.ChatRequest, Conversation]
_ON_CPU, _ON_GPU = 8, 64  # questions in a batch to begin with; halved when memory runs out
_FIRST_BATCH, _MAX_SUSPECTS = 2, 4  # questions, until a model has answered one here: its libraries may not work
_REPLACEMENT_CHARACTER = "\ufffd"


class LocalGenerationOptions(PluginOptions):
    """Weights, device and generation settings. None means the value of the model's generation_config.json."""

    name: PathOrName
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

    def generation_settings(self) -> dict[str, Any]:
        """Return the options on which the texts depend."""
        names = [name for name in LocalGenerationOptions.model_fields if name not in _NOT_GENERATION]
        return {name: value for name in names if (value := getattr(self, name)) is not None}


_NOT_GENERATION = ("name", "revision", "device", "dtype", "batch_size")


class LoadedModel(Protocol):
    """A loaded model, for texts alone or for texts with images."""

    model: Any
    tokenizer: Any

    def size(self, request: chat.ChatRequest) -> int:
        """Return the approximate length of a question; questions of similar length share a batch."""

    def conversation(self, request: chat.ChatRequest) -> Conversation | chat.Failure:
        """Return the question for transformers' chat templates, with decoded images, or why it cannot be asked."""

    def encode(self, conversations: list[Conversation]) -> Any:
        """Return the batch as tensors, padded on the left."""


class LocalChatModel:
    """A chat model of transformers in process; its weights are loaded with the first question.

    `settings` are further settings on which its answers depend; `load_model` gets the options and the revision.
    """

    is_recorded = False

    def __init__(
        self, options: LocalGenerationOptions, settings: dict[str, Any], load_model: Callable[[Any, str], LoadedModel]
    ) -> None:
        name, revision = hub_models.resolve_model_revision(options.name, options.revision)
        self.identity = ModelIdentity(name, revision, options.generation_settings() | settings)
        self._options, self._load_model = options, load_model
        self._is_proven, self._suspects = False, 0  # has it answered; questions in a row with an error of a library

    @cached_property
    def _weights(self) -> LoadedModel:
        with environment.translate_environment_faults("load chat model", self.identity.name):
            return self._load_model(self._options, self.identity.revision)

    @cached_property
    def _batch(self) -> int:
        """Return the number of questions in a batch; lowered when memory runs out."""
        return self._options.batch_size or (_ON_CPU if self._weights.model.device.type == "cpu" else _ON_GPU)

    def reply(
        self, requests: Sequence[chat.ChatRequest], on_answers: chat.OnAnswers = chat.always_continue
    ) -> list[chat.ChatAnswer]:
        """Generate in batches of questions of similar size. Return the answers in the order of the requests. Raises
        EnvironmentFault where a library, a driver or a device fails for every question."""
        answers: list[chat.ChatAnswer] = [chat.NOT_ASKED] * len(requests)
        for places in self._batches(requests):
            prepared = [(place, self._weights.conversation(requests[place])) for place in places]
            valid = [(place, question) for place, question in prepared if not isinstance(question, chat.Failure)]
            generated = self._generate_halving([(requests[place], question) for place, question in valid])
            done: list[tuple[int, chat.ChatAnswer]] = [
                (place, failed) for place, failed in prepared if isinstance(failed, chat.Failure)
            ]
            done += zip((place for place, _ in valid), generated, strict=True)
            for place, answer in done:
                answers[place] = answer
            if not on_answers(done):
                break
        return answers

    def _batches(self, requests: Sequence[chat.ChatRequest]) -> Iterator[list[int]]:
        """Yield places of questions with the same parameters, short ones first, up to the current batch size."""
        alike: dict[str, list[int]] = defaultdict(list)
        for place, request in enumerate(requests):
            alike[canonical_json_text([request.is_scored, request.parameters.explicit_values()])].append(place)
        for group in alike.values():
            rest = sorted(group, key=lambda place: self._weights.size(requests[place]))
            while rest:
                size = self._batch if self._is_proven else min(self._batch, _FIRST_BATCH)
                batch, rest = rest[:size], rest[size:]
                yield batch

    def _ask_harmless_question(self, question: _Question, error: Exception) -> None:
        """Raise EnvironmentFault where even this question, with a white image and one letter, has such an error."""
        request, conversation = question
        harmless = [message | {"content": _make_harmless(message["content"])} for message in conversation]
        try:
            self._generate_batch([(chat.ChatRequest((), request.parameters), harmless)])
        except Exception as again:  # any other error says nothing about the library
            if environment.may_be_environment_fault(again):
                raise self._environment_fault(error) from None

    def _environment_fault(self, error: Exception) -> UserError:
        return environment.make_environment_fault("ask chat model", self.identity.name, error, self._weights.model)

    def _generate_halving(self, questions: Sequence[_Question], is_whole: bool = True) -> list[chat.ChatAnswer]:
        """Halve a batch that fails, down to the single question at fault. Raises EnvironmentFault if a harmless
        question fails as well, or if all first questions of a model fail: nothing shows that it ever works."""
        if not questions:
            return []
        try:
            answers = self._generate_batch(questions)
            self._suspects = 0
            return answers
        except Exception as error:  # transformers raises any exception
            is_memory = environment.is_out_of_memory(error)
            detail = "" if is_memory else " ".join(f"{type(error).__name__}: {error}".split())[:200]
            if environment.may_be_environment_fault(error):
                if is_whole:
                    self._ask_harmless_question(questions[0], error)
                self._suspects += len(questions) == 1
                if self._suspects >= _MAX_SUSPECTS and not self._is_proven:
                    raise self._environment_fault(error) from None
        if len(questions) == 1:
            return [chat.Failure("out_of_memory" if is_memory else "generation_failed", "transient", detail)]
        middle = len(questions) // 2
        if is_memory:
            _free_memory()
            self._batch = min(self._batch, middle)
        parts = questions[:middle], questions[middle:]
        return [answer for part in parts for answer in self._generate_halving(part, is_whole=False)]

    def _generate_batch(self, questions: Sequence[_Question]) -> list[chat.ChatAnswer]:
        torch, _ = import_torch_and_transformers()
        from querytruth.backends.models import beam_search  # imports transformers

        weights, model = self._weights, self._weights.model
        inputs = {
            name: tensor.to(model.device, model.dtype if tensor.is_floating_point() else tensor.dtype)
            for name, tensor in weights.encode([conversation for _, conversation in questions]).items()
        }
        config = self._config(questions[0][0].parameters)
        if questions[0][0].is_scored:
            return self._score_batch(inputs, config)
        if config.do_sample:
            torch.manual_seed(_seed([request for request, _ in questions]))
        with torch.inference_mode():
            sequences = beam_search.generate_with_beams(model, inputs, config)
        new = sequences[:, inputs["input_ids"].shape[1] :].tolist()
        lengths = inputs["attention_mask"].sum(dim=1).tolist()
        ends = config.eos_token_id if isinstance(config.eos_token_id, list) else [config.eos_token_id]
        self._is_proven = self._is_proven or bool(questions[0][0].messages)  # the harmless question has none
        return [
            self._answer(request, tokens, set(ends), length)
            for (request, _), tokens, length in zip(questions, new, lengths, strict=True)
        ]

    @cached_property
    def _yes_and_no(self) -> tuple[list[int], list[int]]:
        """Return the tokens that are a yes and those that are a no, in both languages and all spellings."""
        tokenizer = self._weights.tokenizer
        words = {number: tokenizer.convert_tokens_to_string([token]) for token, number in tokenizer.get_vocab().items()}
        read = {number: chat_completion.read_yes_or_no(word) for number, word in words.items()}
        yes, no = (sorted(number for number, is_yes in read.items() if is_yes is side) for side in (True, False))
        return yes, no

    def _score_batch(self, inputs: dict[str, Any], config: Any) -> list[chat.ChatAnswer]:
        """Return by question the probability of yes among yes and no as the first token of the answer."""
        torch, _ = import_torch_and_transformers()
        count, (yes, no) = len(inputs["input_ids"]), self._yes_and_no
        if not (yes and no):
            return [chat.Failure("no_score", "final", "its tokenizer lacks a token for yes or for no")] * count
        config.update(max_new_tokens=1, num_beams=1, do_sample=False, output_logits=True, return_dict_in_generate=True)
        with torch.inference_mode():
            logits = self._weights.model.generate(**inputs, generation_config=config).logits[0].float()
            sides = torch.stack([logits[:, tokens].logsumexp(dim=1) for tokens in (yes, no)], dim=1)
            shares = sides.softmax(dim=1)[:, 0].tolist()
        self._is_proven = True
        return [chat.make_score_reply(share) for share in shares]

    def _config(self, parameters: chat.GenerationParameters) -> Any:
        """Return the options, overridden by the question's parameters. A question with its own maximal length has no
        minimal length by the options."""
        _, transformers = import_torch_and_transformers()
        chosen = self._options.generation_settings()
        if parameters.max_tokens is not None:
            chosen |= {"max_new_tokens": parameters.max_tokens, "min_new_tokens": 0}
        if parameters.min_tokens is not None:
            chosen["min_new_tokens"] = parameters.min_tokens
        if parameters.temperature is not None:
            chosen |= {"do_sample": parameters.temperature > 0, "temperature": parameters.temperature or None}
        if chosen["do_sample"]:
            chosen["num_beams"] = 1
        own, tokenizer = self._weights.model.generation_config, self._weights.tokenizer
        ends = own.eos_token_id if own.eos_token_id is not None else tokenizer.eos_token_id
        padding = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
        return transformers.GenerationConfig(**chosen, eos_token_id=ends, pad_token_id=padding)

    def _answer(
        self, request: chat.ChatRequest, tokens: list[int], ends: set[int], prompt_tokens: int
    ) -> chat.ChatAnswer:
        stop = next((place for place, token in enumerate(tokens) if token in ends), None)
        written = tokens if stop is None else tokens[:stop]
        count = len(tokens) if stop is None else stop + 1
        decode = self._weights.tokenizer.decode
        text = decode(written, skip_special_tokens=True)
        raw = decode(tokens[:count], skip_special_tokens=False)
        if stop is None:
            text = text.rstrip(_REPLACEMENT_CHARACTER)  # the limit cut a character
        if not text.strip():
            return chat.Failure("empty_content", "final", "the text is empty", raw)
        return chat.check_reply(
            request, chat.Reply(text, "length" if stop is None else "stop", prompt_tokens, count, raw)
        )


def load_weights(name: str, revision: str, options: LocalGenerationOptions, auto_class: str) -> Any:
    """Load the weights; by default on a GPU in half precision, else on the CPU in single precision. Raises
    UserError."""
    if Path(name).is_dir():
        hub_models.check_weight_format(name, Path(name), "load chat model")
    torch, transformers = import_torch_and_transformers()
    if not sys.stderr.isatty():
        transformers.utils.logging.disable_progress_bar()
    device = options.device
    if device != "auto":
        hub_models.choose_device(device, "load chat model")  # before weights are read, for minutes
    else:
        device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    dtype = options.dtype
    if dtype == "auto":
        is_bfloat = device.startswith("cuda") and torch.cuda.is_bf16_supported()
        dtype = "float32" if device == "cpu" else "bfloat16" if is_bfloat else "float16"
    try:
        model = getattr(transformers, auto_class).from_pretrained(
            name, revision=hub_revision(revision), dtype=getattr(torch, dtype), **hub_models.WEIGHTS_WITHOUT_CODE
        )
        return model.to(device).eval()
    except Exception as error:  # wrong folders and devices raise any exception
        raise hub_models.make_loading_error("load chat model", name, error) from None


def import_torch_and_transformers() -> tuple[Any, Any]:
    """Import torch and transformers. Raises UserError where one is not installed."""
    try:
        return importlib.import_module("torch"), importlib.import_module("transformers")
    except ImportError as error:
        raise missing_library_error("load chat model", "a local model", error) from None


def load_tokenizer(name: str, revision: str) -> Any:
    """Load a tokenizer that pads on the left. Raises UserError."""
    _, transformers = import_torch_and_transformers()
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            name, revision=hub_revision(revision), **hub_models.WITHOUT_CODE
        )
    except (ImportError, ValueError, OSError) as error:
        raise hub_models.make_loading_error("load chat model", name, error) from None
    pad_on_the_left(tokenizer)
    return tokenizer


def pad_on_the_left(tokenizer: Any) -> None:
    """Make a tokenizer pad on the left."""
    tokenizer.padding_side = "left"
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token


def hub_revision(revision: str) -> str | None:
    """Return the revision for the hub; None for that of a folder."""
    return None if revision.startswith("files:") else revision


def _make_harmless(content: Any) -> Any:
    """Return a message's content with a white image for each image, and one letter for each text."""
    if isinstance(content, str):
        return "a"
    white = {"type": "image", "image": Image.new("RGB", (224, 224), "white")}
    return [white if "image" in part else {"type": "text", "text": "a"} for part in content]


def _free_memory() -> None:
    torch, _ = import_torch_and_transformers()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _seed(requests: Sequence[chat.ChatRequest]) -> int:
    """Return the questions' own seed, or one derived from them, so that the order of batches does not matter."""
    if (seed := requests[0].parameters.seed) is not None:
        return seed
    described = canonical_json_text([request.cache_key_fields() for request in requests])
    return int.from_bytes(hashlib.sha256(described.encode()).digest()[:4])
