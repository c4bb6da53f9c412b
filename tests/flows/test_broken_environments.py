"""A library that fails for whatever item: one line, exit 1, nothing stored; and the same command goes on afterwards."""

import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from flows.definition_loader import load_definition
from flows.set_kinds import build_set
from flows.training import train_dual_encoder
from querytruth.backends.models import chat
from querytruth.backends.models.chat import ChatImage, ChatRequest, Failure, Message
from querytruth.backends.steps import BuildRun, active_run
from querytruth.cli import app
from querytruth.errors import UserError
from querytruth.questions import open_definition_replies
from tests.flows.bars_set import training_keys, write_bars_set

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
from tests import tiny_chat_models  # noqa: E402 - imports the two
from tests.images import draw_scene  # noqa: E402
from tests.tiny_dual_encoders import save_dual_encoder  # noqa: E402
from tests.tiny_text_models import save_text_model  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]
ERRORS = [
    TypeError("forward() got an unexpected keyword argument 'cache'"),
    RuntimeError("CUDA error: no kernel image is available for execution on the device"),
]


@pytest.fixture(scope="module")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_chat_models.save_image_chat_model("qwen2_5_vl", tmp_path_factory.mktemp("qwen"))


@pytest.fixture
def album(tmp_path: Path) -> Path:
    (tmp_path / "album").mkdir()
    for number in range(9):
        size = (300, 140) if number == 2 else (160, 120)
        image = draw_scene(number, size)
        image.save(tmp_path / "album" / f"{number}.png")
    return tmp_path


def keys(place: Path, model: Path, *more: str) -> list[str]:
    options = {"name": str(model), "num_beams": 1, "max_new_tokens": 3, "min_new_tokens": 3}
    shared = ["name=album", f"out={place / 'sets'}", f"images={place / 'album'}", "render.size=64", "lose_at_most=null"]
    asked = ["captions.model=qwen_vl", f"captions.options={json.dumps(options)}", "ambiguity.text_embedder=char_ngrams"]
    return [*shared, *asked, *more]


def run_command(given: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the last line of a build that must fail with exit status 1 and without a traceback."""
    monkeypatch.setattr("signal.signal", lambda *_: None)
    file = Path(given[1].partition("=")[2]).parent / "recall.yaml"
    file.write_text("name: album\n")
    sets = [part for key in given for part in ("--set", key)]
    monkeypatch.setattr(sys, "argv", ["querytruth", "build", "recall", str(file), *sets])
    with pytest.raises(SystemExit) as ended:
        app.main()
    shown = capsys.readouterr()
    assert ended.value.code == 1
    assert "Traceback" not in shown.err + shown.out
    lines = [line for line in shown.err.splitlines() if line.startswith("error ")]
    assert len(lines) == 1
    return lines[0]


def count_models_with_replies(given: list[str]) -> int:
    with open_definition_replies(load_definition(None, given, "recall")) as store:  # type: ignore[arg-type]
        return len(store.identities())


def caption_all(given: list[str]) -> None:
    """Run the build, which ends before it publishes: a tiny model writes no caption that is kept."""
    with (
        active_run(BuildRun()),
        pytest.raises(UserError, match=r"no query is left of 9 captions|got no reply to any of the 9 questions"),
    ):
        build_set(load_definition(None, given, "recall"))


def break_generate(monkeypatch: pytest.MonkeyPatch, kind: Any, fails: Callable[[Any], Exception | None]) -> list[int]:
    """Has a class of transformers fail where `fails` returns an error; returns how many images each call had."""
    asked: list[int] = []
    whole = kind.generate

    def generate(self: Any, **inputs: Any) -> Any:
        asked.append(len(inputs.get("image_grid_thw", ())))
        if (error := fails(inputs)) is not None:
            raise error
        return whole(self, **inputs)

    monkeypatch.setattr(kind, "generate", generate)
    return asked


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_broken_library_stops_the_build_with_one_line_and_the_build_goes_on_when_it_works(
    album: Path, qwen: Path, error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = keys(album, qwen)
    with monkeypatch.context() as broken:
        asked = break_generate(broken, transformers.Qwen2_5_VLForConditionalGeneration, lambda _: error)
        line = run_command(given, broken, capsys)
    assert "ask chat model" in line
    assert str(error) in line
    assert f"transformers {transformers.__version__}" in line
    assert "transient" not in line
    assert sum(asked) <= 5, "within five images"
    assert count_models_with_replies(given) == 0
    asked = break_generate(monkeypatch, transformers.Qwen2_5_VLForConditionalGeneration, lambda _: None)
    caption_all(given)
    assert sum(asked) == 9
    assert count_models_with_replies(given) == 1


def test_a_library_that_breaks_in_the_middle_costs_no_reply_that_was_there(
    album: Path, qwen: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # What a tiny model writes is of no use, and would be asked for again.
    monkeypatch.setattr("querytruth.backends.models.cached_replies._EndpointWatch._fault_of", lambda *_: "")
    given = keys(album, qwen)
    kind = transformers.Qwen2_5_VLForConditionalGeneration
    with monkeypatch.context() as broken:
        calls: list[int] = break_generate(broken, kind, lambda _: ERRORS[1] if len(calls) > 1 else None)
        assert "CUDA error" in run_command(given, broken, capsys)
    assert count_models_with_replies(given) == 1
    asked = break_generate(monkeypatch, kind, lambda _: None)
    caption_all(given)
    assert sum(asked) == 9 - 2, "the first two are stored"


def test_one_odd_image_costs_its_own_caption_alone(album: Path, qwen: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = chat.load_chat_model("qwen_vl", name=str(qwen), num_beams=1, max_new_tokens=2, min_new_tokens=0)
    asked = []
    for path in sorted((album / "album").iterdir()):
        image = ChatImage(path, hashlib.sha256(path.read_bytes()).hexdigest())
        asked.append(ChatRequest((Message("user", "一", (image,)),)))
    assert not isinstance(model.reply(asked[:1])[0], Failure)

    def fails(inputs: Any) -> Exception | None:
        wide = any(int(width) > int(height) * 2 for _, height, width in inputs["image_grid_thw"])
        return TypeError("an odd image") if wide else None

    break_generate(monkeypatch, transformers.Qwen2_5_VLForConditionalGeneration, fails)
    fresh = chat.load_chat_model("qwen_vl", name=str(qwen), num_beams=1, max_new_tokens=2, min_new_tokens=0)
    for one in (model, fresh):
        answers = one.reply(asked)
        failed = {number: answer for number, answer in enumerate(answers) if isinstance(answer, Failure)}
        assert list(failed) == [2]
        assert failed[2].detail == "TypeError: an odd image"


def test_a_library_that_fails_for_every_image_but_a_white_one_stops_after_four(
    album: Path, qwen: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(inputs: Any) -> Exception | None:
        return ERRORS[0] if float(inputs["pixel_values"].std()) > 0.3 else None

    asked = break_generate(monkeypatch, transformers.Qwen2_5_VLForConditionalGeneration, fails)
    assert "unexpected keyword" in run_command(keys(album, qwen), monkeypatch, capsys)
    assert asked == [2, 1, 1, 1, 2, 1, 1, 1], "four images, and a white one per batch"


def test_an_embedder_of_texts_or_images_that_is_broken_is_one_line(
    album: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from querytruth.backends.models.embedders import clip, sentence_transformer

    texts = sentence_transformer.load(
        sentence_transformer.SentenceTransformerOptions(name=str(save_text_model(tmp_path / "texts")), device="cpu")
    )
    images = clip.load(clip.ClipOptions(name=str(save_dual_encoder("clip", tmp_path / "clip")), device="cpu"))

    def fail(*_: object, **__: object) -> None:
        raise AttributeError("'Cache' object has no attribute 'dtype'")

    monkeypatch.setattr(type(texts._model), "encode", fail)
    monkeypatch.setattr(type(images._model), "get_image_features", fail)
    monkeypatch.setattr(type(images._model), "get_text_features", fail)
    for encode, items, library in (
        (texts.encode_texts, ["a"], "sentence-transformers"),
        (images.encode_texts, ["a"], "transformers"),
        (images.encode_images, [Image.new("RGB", (9, 9))], "transformers"),
    ):
        with pytest.raises(UserError, match=rf"embed .*no attribute 'dtype', in {library} \d+\.") as shown:
            encode(items)  # type: ignore[operator]
        assert "\n" not in str(shown.value)


def test_a_training_on_a_broken_library_is_one_line_and_goes_on_when_it_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_bars_set(tmp_path)
    definition = load_definition(None, training_keys(tmp_path, "bars", "steps.epochs=1"), "training")
    with monkeypatch.context() as broken, active_run(BuildRun(workers=1)):
        broken.setattr(torch.amp.GradScaler, "scale", None)
        with pytest.raises(
            UserError, match=r"\(train\).*TypeError: 'NoneType' object is not callable, in torch \d"
        ) as shown:
            train_dual_encoder(definition)  # type: ignore[arg-type]
        assert "\n" not in str(shown.value)
    with active_run(BuildRun(workers=1)):
        assert train_dual_encoder(definition).is_new  # type: ignore[arg-type]
