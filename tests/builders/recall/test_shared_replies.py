"""One reply for images that do not look alike is another image's: the build stops and names the server."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image, ImageEnhance

from builders.recall.caption_rules import CaptionOverrides
from builders.recall.captions import caption_images, clean_captions
from builders.recall.definition import RecallDefinition
from querytruth.backends.models.chat import ChatImage, Reply
from querytruth.errors import UserError
from querytruth.questions import open_chat_session
from querytruth.sets.ledger import Ledger
from tests.images import draw_scene
from tests.loopback import CannedResponse, loopback

STREET, TABLE = "A narrow street with parked bicycles and a yellow house.", "Two green apples lie beside a blue vase."
OWN = [
    "A red train leaves a small station in the snow.", "Three children build a castle of sand.",
    "An old man reads a newspaper on a bench.", "A bowl of noodles with half an egg.",
    "Sheep graze below a wind turbine.", "A violin hangs in a shop window.",
    "Rain runs down the glass of a telephone box.", "A grey cat sleeps on a stack of books.",
    "Five balloons rise above a river.", "A chef slices an onion with a long knife.",
    "Empty chairs stand around a round pool.", "A tram turns in front of the town hall.",
]  # fmt: skip


def draw_images(folder: Path, count: int, *, are_of_one_scene: bool = False) -> list[ChatImage]:
    images = []
    for number in range(count):
        drawn = draw_scene(7 if are_of_one_scene else number)
        drawn = ImageEnhance.Brightness(drawn).enhance(0.9 + number / 60) if are_of_one_scene else drawn
        drawn.save(folder / f"{number:02}.png")
        images.append(as_chat_image(folder / f"{number:02}.png"))
    return images


def as_chat_image(path: Path) -> ChatImage:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return ChatImage(path, digest, path.name, f"img_{digest[:16]}")


def clean(images: Sequence[ChatImage], texts: Sequence[str], language: str = "en") -> int:
    """Returns the number of captions of a model at an endpoint."""
    options = {"base_url": "http://127.0.0.1:9/v1", "name": "seer"}
    asked = {"model": "openai_compatible", "options": options, "prompt": f"{language}/caption"}
    definition = RecallDefinition.model_validate({"name": "c", "images": str(images[0].path.parent), "captions": asked})
    rows = pd.DataFrame(
        {
            "query_id": [f"q_{number:016}" for number in range(len(images))],
            "image_id": [image.image_id for image in images],
            "prompt": f"{language}/caption", "language": language, "style": "caption",
            "item": [image.file_name for image in images],
        }
    )  # fmt: skip
    ledger = Ledger()
    ledger.record_stage("caption", "caption", len(rows), len(rows))
    replies = [Reply(text, "stop") for text in texts]
    return len(clean_captions(rows, replies, CaptionOverrides(), definition, ledger, images)[0])


@pytest.mark.parametrize(
    ("language", "texts"),
    [
        ("en", [STREET] * 12),
        ("en", [STREET, TABLE, *OWN[:1]] * 4),
        ("en", [STREET, *OWN[:5]] * 2),
        ("en", [STREET, f"{STREET[:-1]}", STREET.upper(), f"{STREET[:-1]} there.", *OWN[:8]]),
        ("en", [*[TABLE] * 6, *OWN[:6]]),
        ("zh", ["一条狭窄的街道上停着几辆自行车", "一条狭窄的街道上停着几辆自行车。"] * 6),
        ("zh", ["木桌上放着一只蓝色花瓶", "雪山脚下有一片蓝色的湖水", "两个孩子在海边堆沙堡"] * 4),
    ],
)
def test_shared_replies_stop_the_build_and_name_the_server(tmp_path: Path, language: str, texts: list[str]) -> None:
    with pytest.raises(UserError, match=r"seer at http://127.0.0.1:9/v1.*gives the same reply") as stopped:
        clean(draw_images(tmp_path, 12), texts, language)
    assert "replies refresh" in str(stopped.value) and "--model seer" in str(stopped.value)


@pytest.mark.parametrize(
    "texts", [OWN, [STREET, STREET, *OWN[:10]], [STREET, STREET, TABLE, TABLE, *OWN[:8]], [*[TABLE] * 3, *OWN[:9]]]
)
def test_a_few_images_may_have_one_caption(tmp_path: Path, texts: list[str]) -> None:
    assert clean(draw_images(tmp_path, 12), texts) == 12


def test_images_that_look_alike_have_one_caption(tmp_path: Path) -> None:
    assert clean(draw_images(tmp_path, 12, are_of_one_scene=True), [STREET] * 12) == 12
    Image.new("RGB", (64, 48), "navy").save(tmp_path / "plain.png")
    assert clean([as_chat_image(tmp_path / "plain.png"), *draw_images(tmp_path, 2)], [STREET] * 3) == 3


def test_the_model_is_asked_no_further(tmp_path: Path) -> None:
    message = {"choices": [{"message": {"content": TABLE}, "finish_reason": "stop"}]}
    images = draw_images(tmp_path, 48)
    with loopback(lambda _request: CannedResponse(message)) as endpoint:
        options = {"base_url": f"{endpoint.url}/v1", "name": "seer", "concurrency": 1}
        captions = {"model": "openai_compatible", "options": options, "prompt": "en/caption"}
        given = {"name": "c", "images": str(tmp_path), "captions": captions, "out": str(tmp_path / "sets")}
        definition = RecallDefinition.model_validate(given)
        with pytest.raises(UserError, match="1 replies cover 32 of 32 images"):
            caption_images(images, definition, open_chat_session(definition), {}, Ledger())
        assert len(endpoint.asked) < 36
