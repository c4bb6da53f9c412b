"""Judges in process: their scores are the numbers of the model itself, of tiny random models of the real classes."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from querytruth.backends.models.chat import (
    ChatAnswer,
    ChatImage,
    ChatRequest,
    Failure,
    GenerationParameters,
    Message,
    Reply,
    load_chat_model,
    read_score,
)
from querytruth.backends.models.embedders import load_image_text_embedder, load_text_embedder
from querytruth.errors import UserError
from tests.images import make_jpeg
from tests.tiny_dual_encoders import save_dual_encoder
from tests.tiny_text_models import LETTERS

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
from tests import tiny_chat_models  # noqa: E402 - imports the two

WORDS = ("yes", "Yes", "no", "是", "否")
COLOURS = [(200, 30, 30), (20, 200, 40), (30, 30, 200), (240, 240, 240)]
SHORT = GenerationParameters(max_tokens=4, temperature=0.0)


def show(folder: Path, number: int) -> ChatImage:
    path = folder / f"{number}.jpg"
    path.write_bytes(make_jpeg(COLOURS[number], (90 + 20 * number, 70)))
    return ChatImage(path, hashlib.sha256(path.read_bytes()).hexdigest(), path.name, f"i{number}")


def ask(text: str, image: ChatImage) -> ChatRequest:
    return ChatRequest((Message("user", text, (image,)),), SHORT, item="q1", language="en", is_scored=True)


def numbers(answers: list[ChatAnswer]) -> list[float]:
    found = [read_score(one.text) for one in answers if isinstance(one, Reply)]
    assert len(found) == len(answers) and None not in found, answers
    return [one for one in found if one is not None]


def test_the_probability_of_yes_is_that_of_the_logits(tmp_path: Path) -> None:
    tiny_chat_models.save_image_chat_model("qwen2_vl", tmp_path / "model", WORDS)
    model: Any = load_chat_model("qwen_vl", name=str(tmp_path / "model"), device="cpu")
    requests = [ask(f"a thing {'x' * number}?", show(tmp_path, number)) for number in range(4)]
    together = numbers(model.reply(requests))
    assert together == pytest.approx([numbers(model.reply([one]))[0] for one in requests], abs=1e-5)
    assert len({round(one, 6) for one in together}) == 4 and all(0 < one < 1 for one in together)
    weights = model._weights
    inputs = weights.encode([weights.conversation(requests[0])])
    with torch.inference_mode():
        logits = weights.model(**inputs).logits[0, -1].double().exp()
    yes, no = (sum(logits[weights.tokenizer.convert_tokens_to_ids(word)] for word in side) for side in
               (("yes", "Yes", "是"), ("no", "否")))  # fmt: skip
    assert together[0] == pytest.approx(float(yes / (yes + no)), abs=1e-4)
    blank = tmp_path / "grey.png"
    Image.new("RGB", (90, 70), (128, 128, 128)).save(blank)
    unseen = ask("a thing ?", ChatImage(blank, hashlib.sha256(blank.read_bytes()).hexdigest()))
    assert abs(numbers(model.reply([unseen]))[0] - together[0]) > 1e-4, "it looks at the image"
    texts = model.reply([ChatRequest(requests[0].messages, SHORT)])
    assert isinstance(texts[0], Reply) and read_score(texts[0].text) is None, "unasked, it writes"


def test_a_tokenizer_without_yes_gives_no_score(tmp_path: Path) -> None:
    tiny_chat_models.save_image_chat_model("qwen2_vl", tmp_path / "model", ("yes", "maybe"))
    model = load_chat_model("qwen_vl", name=str(tmp_path / "model"), device="cpu")
    (answer,) = model.reply([ask("a thing?", show(tmp_path, 0))])
    assert isinstance(answer, Failure) and answer.reason == "no_score"


@pytest.fixture(scope="module")
def cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    from sentence_transformers import CrossEncoder
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizer

    def make(labels: int) -> Path:
        folder = tmp_path_factory.mktemp("cross")
        torch.manual_seed(5)
        listed = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *("##" + letter for letter in LETTERS)]
        sizes = {"hidden_size": 24, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
        config = BertConfig(vocab_size=len(listed), initializer_range=0.6, num_labels=labels, **sizes)
        BertForSequenceClassification(config).save_pretrained(folder)
        BertTokenizer(vocab={token: number for number, token in enumerate(listed)}).save_pretrained(folder)
        CrossEncoder(str(folder), device="cpu").save_pretrained(str(folder / "saved"))
        return folder / "saved"

    return make


def test_of_several_captions_the_best_fit_counts(cross_encoder: Callable[[int], Path], tmp_path: Path) -> None:
    from sentence_transformers import CrossEncoder

    folder = cross_encoder(1)
    captions = {0: ["a dog on a beach", "sand and sea"], 1: ["two cats"]}
    rows = [f"{number}.jpg,{text}" for number, texts in captions.items() for text in texts]
    (tmp_path / "captions.csv").write_text("\n".join(["file_name,caption", *rows]))
    model = load_chat_model("cross_encoder", name=str(folder), captions=tmp_path / "captions.csv", batch=2)
    asked = [ask("a dog", show(tmp_path, number)) for number in range(3)]
    *scored, missing = model.reply(asked)
    own = CrossEncoder(str(folder), device="cpu")
    expected = [max(own.predict([("a dog", text) for text in captions[number]])) for number in (0, 1)]
    assert numbers(scored) == pytest.approx(expected, abs=1e-6)
    assert isinstance(missing, Failure) and missing.reason == "no_caption"
    assert model.identity.parameters["captions"] and model.identity.revision.startswith("files:")


def test_a_model_that_cannot_score_these_is_one_line(cross_encoder: Callable[[int], Path], tmp_path: Path) -> None:
    here = ask("a dog", show(tmp_path, 0))
    with pytest.raises(UserError, match="reads texts only, not images"):
        load_chat_model("cross_encoder", name=str(cross_encoder(1))).reply([here])
    with pytest.raises(UserError, match="returns 3 numbers"):
        load_chat_model("cross_encoder", name=str(cross_encoder(3))).reply([here])


def test_a_cross_encoder_of_images_sees_them(tmp_path: Path) -> None:
    from sentence_transformers import CrossEncoder
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.cross_encoder.modules import LogitScore

    tiny_chat_models.save_llava_model(tmp_path / "llava")
    whole = Transformer(str(tmp_path / "llava"), transformer_task="any-to-any")
    yes, no = (whole.tokenizer.convert_tokens_to_ids(letter) for letter in "yn")
    CrossEncoder(modules=[whole, LogitScore(yes, no)], device="cpu").save_pretrained(str(tmp_path / "saved"))
    model = load_chat_model("cross_encoder", name=str(tmp_path / "saved"))
    shown = [show(tmp_path, number) for number in range(3)]
    found = numbers(model.reply([ask("a thing", one) for one in shown]))
    own = CrossEncoder(str(tmp_path / "saved"), device="cpu")
    expected = [float(own.predict([("a thing", Image.open(one.path))])[0]) for one in shown]
    assert found == pytest.approx(expected, abs=1e-5) and len(set(found)) == 3


def test_an_embedder_gives_cosines_and_encodes_an_image_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save_dual_encoder("clip", tmp_path / "clip")
    model: Any = load_chat_model("embedder", name=str(folder), batch=3)
    shown = [show(tmp_path, number) for number in range(4)]
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(b"\xff\xd8 no image")
    bad = ChatImage(broken, hashlib.sha256(broken.read_bytes()).hexdigest(), image_id="bad")
    encoded: list[int] = []
    encode = model._embedder.encode_images
    monkeypatch.setattr(model._embedder, "encode_images", lambda some: encoded.append(len(list(some))) or encode(some))
    asked = [ask(text, image) for text in ("a dog", "two cats") for image in (*shown, bad)]
    answers = model.reply(asked)
    assert [isinstance(one, Failure) for one in answers] == [False] * 4 + [True] + [False] * 4 + [True]
    own = load_image_text_embedder(str(folder))
    with_image = own.encode_images([Image.open(one.path) for one in shown])
    cosines = (own.encode_texts(["a dog", "two cats"]) @ with_image.T).ravel()
    assert numbers([one for one in answers if isinstance(one, Reply)]) == pytest.approx(cosines.tolist(), abs=1e-5)
    assert sum(encoded) == 4, "of two questions about an image the second reads nothing"


def test_an_embedder_of_texts_compares_captions(tmp_path: Path) -> None:
    (tmp_path / "captions.csv").write_text("image_id,caption\ni0,a dog on a beach\ni0,sand\ni1,two cats\n")
    model = load_chat_model("embedder", name="char_ngrams", captions=tmp_path / "captions.csv")
    found = numbers(model.reply([ask("dogs on a beach", show(tmp_path, number)) for number in (0, 1)]))
    own = load_text_embedder("char_ngrams").encode_texts(["dogs on a beach", "a dog on a beach", "sand", "two cats"])
    expected = [max(float(np.dot(own[0], one)) for one in own[1:3]), float(np.dot(own[0], own[3]))]
    assert found == pytest.approx(expected, abs=1e-6) and found[0] > found[1]
    with pytest.raises(UserError):
        load_chat_model("embedder", name="char_ngrams")
