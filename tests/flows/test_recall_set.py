"""A recall set from images to published queries, with captions from files and from a real endpoint."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.definition_loader import load_definition
from flows.rebuild import rebuild_tables
from flows.set_kinds import build_set
from querytruth.backends.steps import BuildRun, active_run
from querytruth.errors import UserError
from querytruth.sets import set_files
from querytruth.sets.set_files import verify_set
from tests.flows.stub_generator import Listener
from tests.loopback import CannedResponse, Loopback, ReceivedRequest, loopback
from tests.manifest_cuts import unrecorded_cuts
from tests.tiny_dual_encoders import save_dual_encoder
from tests.worlds import (
    CAPTIONS,
    build_recall,
    caption_keys,
    caption_reply,
    chat_reply,
    draw_album,
    make_album,
    recall_keys,
    shown_image,
    stage_of,
    truth_of,
)


@pytest.fixture
def album(tmp_path: Path) -> Path:
    return make_album(tmp_path)


@pytest.mark.thorough
def test_captions_of_a_file_become_queries_and_rivals_become_relevant(album: Path) -> None:
    result = build_recall(caption_keys(album))
    found = truth_of(result)
    assert found.pop(CAPTIONS["beach"]) == {"beach"} and found.pop(CAPTIONS["park"]) == {"park"}
    assert found.pop(CAPTIONS["lake"]) == {"lake"}
    # Both of the others say the same of two images: each is now right for both.
    assert set(map(frozenset, found.values())) == {frozenset({"street", "street2"})}
    assert unrecorded_cuts(result.manifest) == []
    ambiguity = result.manifest["notes"]["ambiguity"]
    assert (ambiguity["before"]["ambiguous"], ambiguity["after"]["ambiguous"]) == (2, 0)
    assert ambiguity["before"]["share"] == 0.4
    tables = set_files.read_set(result.path).tables
    assert set(tables.queries["source_image_id"]) <= set(tables.images["image_id"])
    assert set(tables.queries["style"]) == {"caption"} and set(tables.queries["language"]) == {"zh"}
    assert set(tables.qrels["judged_by"]) == {"caption"}
    assert not list(verify_set(result.path))
    assert not build_recall(caption_keys(album)).is_new, "the same again publishes nothing"
    assert rebuild_tables(result.path).digest == result.manifest["content_digest"]


@pytest.mark.thorough
def test_languages_and_styles_are_queries_of_their_own_each_by_its_prompt(album: Path) -> None:
    rows = [
        "beach.png,zh,三只狗在沙滩上奔跑",
        "beach.png,en,Three dogs running on the beach",
        "park.png,en,A red bicycle",
    ]
    (album / "captions.csv").write_text("\n".join(["file_name,language,caption", *rows]), encoding="utf-8")
    result = build_recall(caption_keys(album, "captions.prompt=[zh/caption, en/keywords]"))
    queries = set_files.read_set(result.path).tables.queries
    told = {(row.language, row.style, row.text) for row in queries.itertuples()}
    assert told == {
        ("zh", "caption", "三只狗在沙滩上奔跑"),
        ("en", "keywords", "Three dogs running on the beach"),
        ("en", "keywords", "A red bicycle"),
    }
    names = [prompt["name"] for prompt in result.manifest["prompts"]]
    assert names == ["zh/caption", "en/keywords", "en/cleaning.yaml", "zh/cleaning.yaml"]


@pytest.mark.thorough
def test_a_published_gallery_is_asked_about_and_its_version_is_kept(album: Path) -> None:
    images = [f"images={album / 'album'}", f"out={album / 'sets'}", "render.size=64"]
    with active_run(BuildRun()):
        gallery = build_set(load_definition(None, ["name=images", *images], "gallery"))
    model = ["captions.model=captions_file", f"captions.options.path={album / 'captions.csv'}"]
    given = ["name=album", f"out={album / 'sets'}", "gallery=images", "ambiguity.text_embedder=char_ngrams", *model]
    result = build_recall(given)
    assert result.manifest["configuration"]["gallery"] == "images/v1"
    assert {"file": "images/v1", "sha256": gallery.manifest["content_digest"], "counts": {"images": 5}} in (
        result.manifest["inputs"]
    )
    draw_album(album / "album", [*CAPTIONS, "new"])
    with active_run(BuildRun()):
        assert build_set(load_definition(None, ["name=images", *images], "gallery")).version == 2
    assert rebuild_tables(result.path).digest == result.manifest["content_digest"], "v1, not what is newest now"
    assert str(album) not in json.dumps({k: v for k, v in result.manifest.items() if k != "envelope"})
    with pytest.raises(UserError, match="render has no effect together with gallery"):
        load_definition(None, [*given, "render.size=32"], "recall")
    with pytest.raises(UserError, match="either gallery"):
        load_definition(None, [*given, "images=x"], "recall")


@pytest.fixture
def images(album: Path) -> Path:
    with active_run(BuildRun()):
        given = ["name=images", f"images={album / 'album'}", f"out={album / 'sets'}", "render.size=64"]
        build_set(load_definition(None, given, "gallery"))
    return album


@pytest.fixture
def endpoint(images: Path) -> Iterator[Loopback]:
    with loopback(lambda asked: caption_reply(CAPTIONS[shown_image(asked, images)])) as server:
        yield server


def from_endpoint(place: Path, server: Loopback, *more: str) -> list[str]:
    options = f"captions.options={{base_url: {server.url}/v1, name: m, pause: 0, tries: 1, concurrency: 1}}"
    shared = ["name=album", f"out={place / 'sets'}", "gallery=images", "ambiguity.text_embedder=char_ngrams"]
    return [*shared, "captions.model=openai_compatible", options, *more]


@pytest.mark.thorough
def test_offline_without_replies_says_so_and_a_part_of_them_waits(images: Path, endpoint: Loopback) -> None:
    with pytest.raises(UserError, match="without --offline"):
        build_recall(from_endpoint(images, endpoint), offline=True)
    endpoint.answer = lambda asked: (
        caption_reply(CAPTIONS[shown_image(asked, images)]) if len(endpoint.asked) <= 3 else CannedResponse("busy", 503)
    )
    result = build_recall(from_endpoint(images, endpoint))
    told = stage_of(result, "caption")
    assert (told["accepted"], told["pending"]) == (3, {"server_error": 2})
    assert len(set_files.read_set(result.path).tables.images) == 5, "the images stay in the gallery"
    endpoint.answer = lambda asked: caption_reply(CAPTIONS[shown_image(asked, images)])
    before = len(endpoint.asked)
    assert stage_of(build_recall(from_endpoint(images, endpoint)), "caption")["accepted"] == 5
    assert len(endpoint.asked) == before + 2, "only the two that had no answer"


@pytest.mark.thorough
def test_recaption_shows_the_rivals_and_asks_what_tells_the_image_apart(images: Path, endpoint: Loopback) -> None:
    shown: list[tuple[str, list[str]]] = []

    def answer(asked: ReceivedRequest) -> CannedResponse:
        name, text = shown_image(asked, images), asked.json["messages"][0]["content"][-1]["text"]
        if "不同之处" not in text:
            return caption_reply(CAPTIONS[name])
        shown.append((name, text.split("\n")))
        return caption_reply("街边有一辆绿色的公交车" if name == "street" else CAPTIONS["street2"])

    endpoint.answer = answer
    given = from_endpoint(images, endpoint, "ambiguity.policy=recaption")
    result = build_recall(given)
    ambiguity = result.manifest["notes"]["ambiguity"]
    # The green one is told apart; the other still fits both, is asked a second time, and goes.
    told = {(name, lines[1], lines[3]) for name, lines in shown}
    assert told == {
        ("street", CAPTIONS["street"], CAPTIONS["street2"]),
        ("street2", CAPTIONS["street2"], CAPTIONS["street"]),
        ("street2", CAPTIONS["street2"], "街边有一辆绿色的公交车"),
    }
    assert [one["asked"] for one in ambiguity["rounds"]] == [2, 1]
    assert ambiguity["after"] == {"queries": 4, "ambiguous": 0, "share": 0.0}
    assert truth_of(result)["街边有一辆绿色的公交车"] == {"street"}
    outcomes = {example["text"]: example["outcome"] for example in ambiguity["examples"]}
    assert outcomes == {CAPTIONS["street"]: "asked_again", CAPTIONS["street2"]: "dropped"}
    calls = len(endpoint.asked)
    assert not build_recall(given).is_new and len(endpoint.asked) == calls


@pytest.mark.thorough
def test_an_image_embedder_sees_the_images_of_the_set(album: Path) -> None:
    model = save_dual_encoder("chinese_clip", album / "model")
    given = caption_keys(album, "ambiguity.text_embedder=char_ngrams", f"ambiguity.image_embedder={model}")
    result = build_recall(given)
    roles = {entry["role"]: entry for entry in result.manifest["models"]}
    assert roles["image rivals"]["name"] == "model" and roles["image rivals"]["revision"]
    assert roles["caption rivals"]["name"] == "char_ngrams"
    assert unrecorded_cuts(result.manifest) == []
    assert str(album) not in json.dumps({k: v for k, v in result.manifest.items() if k != "envelope"})


@pytest.mark.thorough
def test_a_key_is_in_no_file(images: Path, endpoint: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPTION_KEY", "sk-only-for-the-endpoint")
    given = from_endpoint(images, endpoint, "captions.options.key_env=CAPTION_KEY")
    build_recall(given)
    assert all(asked.headers["authorization"] == "Bearer sk-only-for-the-endpoint" for asked in endpoint.asked)
    for path in (images / "sets").rglob("*"):
        assert not path.is_file() or b"sk-only-for-the-endpoint" not in path.read_bytes(), path
    with pytest.raises(UserError, match="key in a definition"):
        build_recall([*given, "captions.options.api_key=sk-1"])


ENGLISH = {
    "beach": "Three dogs run along a sandy beach.",
    "park": "A red bicycle leans against a tree in the park.",
    "street": "A yellow bus waits at the side of the street.",
    "street2": "Two children cross the road in front of a bakery.",
    "lake": "A white bird sits on a boat in the lake.",
}


def write_english_captions(place: Path, texts: dict[str, str]) -> None:
    rows = ["file_name,caption", *[f"{name}.png,{text}" for name, text in texts.items()]]
    (place / "captions.csv").write_text("\n".join(rows), encoding="utf-8")


def test_english_captions_without_a_prompt_become_english_queries(album: Path) -> None:
    write_english_captions(album, ENGLISH)
    result = build_recall(caption_keys(album))
    assert result.manifest["counts"]["queries"] == 5
    assert result.manifest["configuration"]["captions"]["prompt"] == ["en/caption"]
    assert set(set_files.read_set(result.path).tables.queries["language"]) == {"en"}


def test_all_captions_in_another_language_than_the_prompt_publish_nothing(album: Path) -> None:
    write_english_captions(album, ENGLISH)
    with pytest.raises(UserError) as refused:
        build_recall(caption_keys(album, "captions.prompt=zh/caption"))
    assert str(refused.value) == (
        "album (publish): no query is left of 5 captions (5 wrong language); nothing was published. Next: choose "
        "a prompt in the language of the captions (captions.prompt: en/caption)"
    )
    assert not list((album / "sets").glob("album/v*"))


@pytest.mark.thorough
def test_a_nested_set_without_a_query_is_not_published(album: Path) -> None:
    write_english_captions(album, {"lake": ENGLISH["lake"]})
    said = Listener()
    with active_run(BuildRun(said)):
        result = build_set(load_definition(None, caption_keys(album, "sizes=[1,2,3,4]"), "recall"))
    published = {nested.manifest["name"] for nested in result.nested_results}
    unpublished = {line.partition(":")[0] for line in said.lines if "not published, no image has a query" in line}
    assert published | unpublished == {f"album-{size}" for size in (1, 2, 3, 4)} and unpublished
    assert all(not list((album / "sets" / name).glob("v*")) for name in unpublished)


LONG = (
    "一位老人坐在公园的长椅上看报纸，旁边有一只棕色的狗，远处有两个孩子在放风筝，天上飘着几朵白云，湖面上停着三条小船，"
    "岸边的柳树下有人钓鱼，红色的自行车靠着栏杆，卖冰淇淋的小贩推着车走过，鸽子在广场上啄食，钟楼的指针指向下午四点。"
)


@pytest.mark.thorough
def test_captions_by_an_endpoint_obey_the_limits_of_the_article(images: Path) -> None:
    replies = {
        **CAPTIONS,
        "park": "公园里有一个人，无法确定其身份",
        "lake": "1. 湖边有一只白鸟\n2. 湖上有一条船",
        "beach": LONG,
    }
    with loopback(lambda asked: caption_reply(replies[shown_image(asked, images)])) as server:
        result = build_recall(
            from_endpoint(images, server, "captions.prompt=[zh/caption,zh/phrase]", "ambiguity.policy=review")
        )
        sent = {(asked.json["max_tokens"], asked.json.get("min_tokens")) for asked in server.asked}
        assert sent == {(48, 46), (48, None)}, "a phrase needs no least length"
        build_recall(from_endpoint(images, server, "captions.max_tokens=60", "captions.min_tokens=0", "name=other"))
        assert {(one.json["max_tokens"], one.json.get("min_tokens")) for one in server.asked[10:]} == {(60, None)}
    tables = set_files.read_set(result.path).tables
    texts = set(tables.queries["text"])
    assert "湖边有一只白鸟" in texts and not any("湖上有一条船" in text for text in texts)
    assert max(len(text) for text in texts) <= 80 and any(LONG.startswith(text) for text in texts if len(text) > 40)
    reasons = tables.ledger.loc[tables.ledger["stage"] == "clean", "reason"].astype(str)
    assert set(reasons) == {"refusal"} and not any("无法确定" in text for text in texts)
    limits = {one["name"]: one["value"] for one in result.manifest["thresholds"]}
    assert limits["captions.max_length.zh"] == 80 and not unrecorded_cuts(result.manifest)


@pytest.mark.thorough
def test_a_renamed_set_pays_for_no_reply_again(album: Path) -> None:
    asked = list[ReceivedRequest]()

    def answer(request: ReceivedRequest) -> CannedResponse:
        asked.append(request)
        return chat_reply(f"第{len(asked)}只小动物在房子前面")

    with loopback(answer) as server:
        options = f'captions.options={{"base_url":"{server.url}/v1","name":"m"}}'
        words = ("captions.model=openai_compatible", options)
        build_recall(recall_keys(album, *words))
        paid = len([one for one in asked if one.method == "POST"])
        result = build_recall(recall_keys(album, *words, name="renamed"))
        assert len([one for one in asked if one.method == "POST"]) == paid == 5
        stranger = build_recall(
            recall_keys(album / ".." / album.name, *words, f"out={album / 'elsewhere'}", name="third")
        )
    assert result.path.parent.name == "renamed" and stranger.manifest["counts"]["queries"]
    assert len([one for one in asked if one.method == "POST"]) == 10, "another folder of sets knows nothing of it"
