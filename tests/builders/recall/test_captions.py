"""One reply for images that do not look alike is another image's: the build stops and names the server."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from PIL import Image, ImageEnhance

from builders.publication import BuildResult, publish_decisions
from builders.recall.caption_rules import CaptionOverrides, caption_ledger_item, caption_query_id
from builders.recall.captions import caption_images, clean_captions
from builders.recall.definition import RecallDefinition
from flows.definition_loader import load_definition
from flows.rebuild import rebuild_tables
from flows.set_kinds import build_set, plan_set
from querytruth.backends.models.chat import ChatImage, Reply
from querytruth.backends.steps import BuildRun, active_run
from querytruth.errors import UserError
from querytruth.questions import open_chat_session
from querytruth.records import image_id_of_bytes
from querytruth.sets import decision_log, set_files
from querytruth.sets.decision_records import Override
from querytruth.sets.ledger import Ledger
from tests.images import draw_scene
from tests.loopback import CannedResponse, ReceivedRequest, loopback
from tests.worlds import (
    CAPTIONS,
    build_recall,
    caption_keys,
    caption_reply,
    make_album,
    shown_image,
    stage_of,
    truth_of,
    write_captions,
)

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
    """Return the number of captions of a model at an endpoint."""
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


REFUSAL = "抱歉，我无法查看这张图片。"
BIKE = "公园里停着一辆红色的自行车"


@pytest.fixture
def album(tmp_path: Path) -> Path:
    """Five images; the model declines one, and says nothing of another."""
    return make_album(tmp_path, {**CAPTIONS, "park": REFUSAL, "lake": ""})


def ids(result: BuildResult) -> dict[str, str]:
    """The query_ids by what the ledger calls captions, as the review page tells them."""
    images = set_files.read_set(result.path).tables.images
    asked = result.manifest["configuration"]["captions"]
    return {
        caption_ledger_item(name, image_id, prompt, number): caption_query_id(image_id, prompt, number)
        for name, image_id in zip(images["file_name"], images["image_id"], strict=True)
        for prompt in asked["prompt"]
        for number in range(asked["per_image"])
    }


def want(result: BuildResult, name: str, caption: str = "", note: str = "看过原图", at: str = "1") -> Override:
    """A person's word on the caption of an image, in the log."""
    item = f"{name}.png · zh/caption"
    word = Override(ids(result)[item], "rescue", item, caption, note, "lin", "rejects", at)
    decision_log.append_decisions(result.path.parent, [word])
    return word


def undo(result: BuildResult, word: Override) -> None:
    taken = Override(word.item, "undo", word.name, reviewer="lin", view="rejects", undoes=word.decision_id)
    decision_log.append_decisions(result.path.parent, [taken])


def told(result: BuildResult) -> tuple[list[str], dict[str, str]]:
    """The words in effect, and the stale ones with the reason."""
    decided = result.manifest["decisions"]
    return decided["in_effect"], {one["decision"]: one["why"] for one in decided["stale"]}


def same_again(*results: BuildResult) -> None:
    for result in results:
        assert rebuild_tables(result.path).digest == result.manifest["content_digest"], result.path


@pytest.mark.slow
def test_what_people_wrote_and_let_in_is_all_that_changes_and_undone_it_is_as_before(album: Path) -> None:
    Image.new("RGB", (600, 60), "red").save(album / "album" / "long.png")
    with (album / "captions.csv").open("a", encoding="utf-8") as file:
        file.write("\nlong.png,zh,一条红色的长横幅")
    first = build_recall(caption_keys(album))
    rejected = [stage_of(first, name)["rejected"] for name in ("filter", "caption", "clean")]
    assert rejected == [{"too_wide": 1}, {"no_caption": 1}, {"refusal": 1}]
    digest = hashlib.sha256((album / "album" / "long.png").read_bytes()).hexdigest()
    wide = Override(image_id_of_bytes(digest), "rescue", "long.png", "", "全景")
    decision_log.append_decisions(first.path.parent, [wide])
    park = want(first, "park", f"  {BIKE}\n", "图上看得清")
    words = [wide, park, want(first, "lake", CAPTIONS["lake"])]
    waiting = publish_decisions(first.path)
    assert not waiting.is_new and waiting.waiting_count == 3, "they wait for a build"
    second = build_recall(caption_keys(album))
    added = {"一条红色的长横幅": {"long"}, BIKE: {"park"}, CAPTIONS["lake"]: {"lake"}}
    assert second.version == 2 and truth_of(second) == truth_of(first) | added
    tables = set_files.read_set(second.path).tables
    row = tables.qrels.set_index("query_id").loc[park.item]
    assert (row["judged_by"], row["evidence"]) == ("human", "图上看得清")
    assert tables.qrels["judged_by"].astype(str).value_counts()["human"] == 2 and not len(tables.ledger)
    assert stage_of(second, "clean")["entered"] == stage_of(second, "clean")["accepted"] == 6
    captions = second.manifest["notes"]["captions"]
    assert (captions["replies"], captions["written_by_people"]) == (5, 2)
    assert not any(BIKE in one["example"] for one in captions["openings"]["zh"]), "no model speaks so"
    assert told(second) == (sorted(word.decision_id for word in words), {}) and not second.stale
    same_again(first, second)
    assert publish_decisions(second.path).waiting_count == 0 and not build_recall(caption_keys(album)).is_new
    for word in words:
        undo(second, word)
    assert publish_decisions(second.path).waiting_count == 3
    third = build_recall(caption_keys(album))
    assert third.version == 3 and third.manifest["content_digest"] == first.manifest["content_digest"]
    assert told(third) == ([], {}) and "written_by_people" not in third.manifest["notes"]["captions"]


@pytest.mark.slow
def test_of_two_alike_that_people_wrote_one_counts_and_a_reply_gives_way(album: Path) -> None:
    write_captions(album, {"beach": CAPTIONS["beach"], "park": BIKE})
    with (album / "captions.csv").open("a", encoding="utf-8") as file:
        file.write(f"\npark.png,zh,{REFUSAL}\npark.png,zh,{REFUSAL}")
    given = caption_keys(album, "captions.per_image=3")
    first = build_recall(given)
    assert stage_of(first, "clean")["rejected"] == {"refusal": 2} and truth_of(first)[BIKE] == {"park"}
    names = ids(first)
    said_twice = [Override(names[f"park.png · zh/caption {number}"], "rescue", "", BIKE, "看过") for number in (2, 3)]
    decision_log.append_decisions(first.path.parent, said_twice)
    second = build_recall(given)
    queries = set_files.read_set(second.path).tables.queries
    (query,) = queries.loc[queries["text"] == BIKE, "query_id"]
    counts, late = sorted(said_twice, key=lambda word: word.item)
    assert query == counts.item and told(second)[0] == [counts.decision_id]
    assert told(second)[1] == {
        late.decision_id: "another caption that a person wrote for the same image has the same text"
    }
    assert stage_of(second, "clean")["rejected"] == {"refusal": 1, "repeated_caption": 1}
    same_again(first, second)


@pytest.fixture
def street(tmp_path: Path) -> Path:
    return make_album(tmp_path)


@pytest.mark.slow
def test_an_ambiguous_query_stays_with_its_own_image_and_the_notes_say_so(street: Path) -> None:
    given = caption_keys(street, "ambiguity.policy=drop")
    first = build_recall(given)
    assert stage_of(first, "ambiguity")["rejected"] == {"ambiguous": 2}
    word = want(first, "street")
    assert publish_decisions(first.path).waiting_count == 1
    second = build_recall(given)
    assert truth_of(second) == truth_of(first) | {CAPTIONS["street"]: {"street"}}
    assert set(set_files.read_set(second.path).tables.qrels["judged_by"]) == {"caption"}, "the caption is the model's"
    assert stage_of(second, "ambiguity")["rejected"] == {"ambiguous": 1}
    notes = second.manifest["notes"]["ambiguity"]
    assert notes["after"] == {"queries": 4, "ambiguous": 1, "share": 0.25} and notes["rescued"] == 1
    outcomes = {one["text"]: one["outcome"] for one in notes["examples"]}
    assert outcomes == {CAPTIONS["street"]: "rescued", CAPTIONS["street2"]: "dropped"}
    assert "still ambiguous, kept in the set by a person's override" in (second.path / "README.md").read_text()
    same_again(first, second)
    undo(second, word)
    third = build_recall(given)
    assert third.manifest["content_digest"] == first.manifest["content_digest"]
    assert third.manifest["notes"]["ambiguity"] == first.manifest["notes"]["ambiguity"]


@pytest.mark.slow
def test_rivals_are_looked_for_with_a_person_s_own_words(street: Path) -> None:
    given = caption_keys(street, "ambiguity.policy=drop")
    first = build_recall(given)
    green = "街边有一辆绿色的双层公交车"
    want(first, "street", green)
    second = build_recall(given)
    assert truth_of(second)[green] == {"street"} and CAPTIONS["street2"] not in truth_of(second)
    after = second.manifest["notes"]["ambiguity"]["after"]
    assert after == {"queries": 4, "ambiguous": 0, "share": 0.0}, "nothing else is green"
    same_again(first, second)


@pytest.mark.slow
def test_what_a_person_wrote_is_not_asked_about_again_and_plans_go_on(street: Path) -> None:
    images = [f"images={street / 'album'}", f"out={street / 'sets'}", "render.size=64", "name=images"]
    with active_run(BuildRun()):
        build_set(load_definition(None, images, "gallery"))
    shown: list[str] = []

    def answer(asked: ReceivedRequest) -> CannedResponse:
        name, text = shown_image(asked, street), asked.json["messages"][0]["content"][-1]["text"]
        if "不同之处" in text:
            shown.append(name)
        return caption_reply(CAPTIONS[name])

    with loopback(answer) as server:
        options = f"captions.options={{base_url: {server.url}/v1, name: m, pause: 0, tries: 1, concurrency: 1}}"
        given = ["name=album", f"out={street / 'sets'}", "gallery=images", "ambiguity.text_embedder=char_ngrams"]
        given += ["captions.model=openai_compatible", options, "ambiguity.policy=recaption"]
        first = build_recall(given)
        asked = len(shown)
        assert set(shown) == {"street", "street2"} and stage_of(first, "ambiguity")["rejected"] == {"ambiguous": 2}
        want(first, "street", "街边的公交车")
        want(first, "street2")
        second = build_recall(given)
        assert "street" not in shown[asked:], "people have said how it reads"
        assert truth_of(second) == truth_of(first) | {
            "街边的公交车": {"street"},
            CAPTIONS["street2"]: {"street2"},
        }
        with active_run(BuildRun()):
            plan: dict[str, Any] = plan_set(load_definition(None, given, "recall"))
        assert (plan["model_calls"], plan["known_from_before"], plan["captions"]) == (0, 5, 5)
        want(second, "street2", "公交车在街边", at="2")
        third = build_recall(given)
        ambiguity = third.manifest["notes"]["ambiguity"]
        assert (ambiguity["rounds"], ambiguity["after"]["ambiguous"]) == ([], 2), "there is nothing to ask"
    same_again(first, second, third)
