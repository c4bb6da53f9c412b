"""Prompts that are read once: the texts stay those of transformers' own search, even where its caches change."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
from querytruth.backends.models import beam_search  # noqa: E402 - imports the two
from querytruth.backends.models.chat.qwen_vl import load_processor  # noqa: E402
from tests import tiny_chat_models  # noqa: E402

SIZES = [(60, 60), (200, 100), (90, 300), (56, 60)]
Loaded = tuple[Any, dict[str, Any], Any]


@pytest.fixture(autouse=True)
def no_gradients(one_thread: None) -> Iterator[None]:
    with torch.inference_mode():
        yield


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Loaded]:
    """A tiny model, a batch of questions of different lengths about images, and how to answer them."""
    made: dict[str, Path] = {}

    def make(kind: str, **text: Any) -> Loaded:
        if kind not in made:
            folder = tmp_path_factory.mktemp(kind)
            llava = kind == "llava"
            made[kind] = (
                tiny_chat_models.save_llava_model(folder)
                if llava
                else tiny_chat_models.save_image_chat_model(kind, folder)
            )
        name = str(made[kind])
        config = transformers.AutoConfig.from_pretrained(name)
        for field, value in text.items():
            setattr(config.text_config, field, value)
        model = transformers.AutoModelForImageTextToText.from_pretrained(name, config=config).eval()
        inputs = load_processor(name, "files:", config, None, None)
        return model, dict(inputs([question(n) for n in range(len(SIZES))])), inputs.tokenizer

    return make


def question(number: int) -> list[dict[str, Any]]:
    torch.manual_seed(number)
    noise = torch.randint(0, 256, (*SIZES[number][::-1], 3), dtype=torch.uint8)
    parts = [{"type": "image", "image": Image.fromarray(noise.numpy())}, {"type": "text", "text": "一" * number}]
    return [{"role": "user", "content": parts}]


def ending_with(letters: str, tokenizer: Any, **options: Any) -> Any:
    """Five beams; each of these letters ends a text."""
    ends = tokenizer.convert_tokens_to_ids(list(letters))
    given = {"num_beams": 5, "max_new_tokens": 14, "min_new_tokens": 2, "do_sample": False} | options
    return transformers.GenerationConfig(eos_token_id=ends, pad_token_id=tokenizer.pad_token_id, **given)


@pytest.mark.parametrize("letters", ["", "abcdefghijklmnop"])
@pytest.mark.parametrize("kind", [*tiny_chat_models.IMAGE_MODELS, "llava"])
@pytest.mark.thorough
def test_the_texts_are_those_of_transformers_own_search(tiny: Callable[..., Loaded], kind: str, letters: str) -> None:
    model, inputs, tokenizer = tiny(kind)
    assert inputs["attention_mask"].min() == 0, "some are padded"
    config = ending_with(letters, tokenizer)
    expected = model.generate(**inputs, generation_config=config)
    before_the_limit = torch.isin(expected[:, -2], torch.tensor([*config.eos_token_id, tokenizer.pad_token_id]))
    assert before_the_limit.any() == bool(letters)
    assert torch.equal(beam_search.generate_with_beams(model, inputs, config), expected)
    assert torch.equal(beam_search.generate_with_beams(model, inputs, config), expected), (
        "nothing is left of the first time"
    )


def test_a_prompt_is_read_once_and_not_by_every_beam(tiny: Callable[..., Loaded]) -> None:
    model, inputs, tokenizer = tiny("qwen2_5_vl")
    read: list[int] = []

    def note(_module: Any, _args: Any, kwargs: dict[str, Any]) -> None:
        read.append(kwargs["inputs_embeds"].shape[:2].numel())

    model.model.language_model.register_forward_pre_hook(note, with_kwargs=True)
    config = ending_with("", tokenizer, max_new_tokens=6, min_new_tokens=6)
    beam_search.generate_with_beams(model, inputs, config)
    assert read == [inputs["input_ids"].numel(), *[5 * len(SIZES)] * 6]


def test_a_memory_of_another_kind_is_left_to_transformers(tiny: Callable[..., Loaded]) -> None:
    model, inputs, tokenizer = tiny("qwen2_vl", layer_types=["sliding_attention", "full_attention"], sliding_window=6)
    config = ending_with("a", tokenizer)
    expected = model.generate(**inputs, generation_config=config)
    assert torch.equal(beam_search.generate_with_beams(model, inputs, config), expected)


def test_unknown_models_search_as_in_transformers(tiny: Callable[..., Loaded], monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs, tokenizer = tiny("qwen3_vl")
    calls: list[set[str]] = []
    monkeypatch.setattr(model, "generate", lambda **given: calls.append(set(given)))
    for kind, beam_count in (("mllama", 5), ("qwen3_vl", 1)):
        monkeypatch.setattr(model.config, "model_type", kind)
        beam_search.generate_with_beams(model, inputs, ending_with("a", tokenizer, num_beams=beam_count))
    assert calls == [{*inputs, "generation_config"}] * 2


@pytest.mark.parametrize("name", ["crop", "batch_repeat_interleave"])
def test_where_transformers_renames_what_is_used_its_own_search_answers_and_one_line_says_so(
    tiny: Callable[..., Loaded], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    model, inputs, tokenizer = tiny("qwen2_vl")
    config = ending_with("a", tokenizer, max_new_tokens=4)
    expected = model.generate(**inputs, generation_config=config)
    monkeypatch.setattr(beam_search, "_left_to_transformers", set())
    monkeypatch.delattr(transformers.Cache, name)
    for _ in range(2):
        assert torch.equal(beam_search.generate_with_beams(model, inputs, config), expected)
    [line] = [record.getMessage() for record in caplog.records if record.name == beam_search.__name__]
    assert name in line


def test_a_faulty_question_changes_no_library(tiny: Callable[..., Loaded], monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs, tokenizer = tiny("qwen2_vl")
    monkeypatch.setattr(beam_search, "_left_to_transformers", set())
    with pytest.raises(AttributeError, match="NoneType"):
        beam_search.generate_with_beams(model, inputs | {"pixel_values": None}, ending_with("a", tokenizer))
    assert not beam_search._left_to_transformers
