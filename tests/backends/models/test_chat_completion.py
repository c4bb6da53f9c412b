"""A judge's probability of yes, and scores of rerank endpoints: what an answer does not hold is never made up."""

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import pytest

from querytruth.backends.models.chat import ChatImage, ChatRequest, Failure, Message, Reply, load_chat_model, read_score
from querytruth.backends.models.chat_completion import read_rank_score, read_yes_share
from querytruth.errors import UserError
from tests.images import make_jpeg
from tests.loopback import CannedResponse, loopback


def token(word: str, share: float) -> dict[str, Any]:
    return {"token": word, "logprob": math.log(share)}


def completion(shares: dict[str, float], first: str = "", before: tuple[str, ...] = ()) -> dict[str, Any]:
    """An answer whose token is the likeliest one, or `first`, with these listed; `before`: tokens that come first."""
    chosen = first or max(shares, key=lambda word: shares[word])
    content = [token(word, 0.99) | {"top_logprobs": [token(word, 0.99)]} for word in before]
    listed = [token(word, share) for word, share in shares.items()]
    content.append(token(chosen, shares[chosen]) | {"top_logprobs": listed})
    return {"choices": [{"message": {"content": chosen}, "logprobs": {"content": content}}]}


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ({"yes": 0.8, "no": 0.2}, 0.8),
        ({"Yes": 0.5, " yes": 0.3, "no": 0.1, "NO": 0.1}, 0.8),
        ({"是": 0.6, "否": 0.3, "不": 0.1}, 0.6),
        ({"对": 0.9, "不对": 0.1}, 0.9),
        ({"Yes.": 0.7, "\nno": 0.3}, 0.7),
        ({"▁yes": 0.25, "▁no": 0.75}, 0.25),
        ({"yes": 0.6, "no": 0.2, "maybe": 0.2}, 0.75),
        ({"no": 0.97, "No": 0.02, "Maybe": 0.005}, 0.0),
    ],
)
def test_yes_is_weighed_against_no_in_both_languages_however_spelt(shares: dict[str, float], expected: float) -> None:
    share = read_yes_share(completion(shares))
    assert share is not None and share == pytest.approx(expected, abs=0.01)


def test_blanks_before_the_answer_are_passed_over() -> None:
    assert read_yes_share(completion({"yes": 0.9, "no": 0.1}, before=("\n", " "))) == pytest.approx(0.9)


def answer_with(listed: Any) -> dict[str, Any]:
    """An answer whose first token has this as its likeliest ones."""
    content = [token("yes", 0.8) | ({} if listed is MISSING else {"top_logprobs": listed})]
    return {"choices": [{"message": {"content": "yes"}, "logprobs": {"content": content}}]}


def answer_of(logprobs: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"content": "yes"}, "logprobs": logprobs}]}


MISSING, NO = object(), token("no", 0.2)
BROKEN: dict[str, dict[str, Any]] = {
    **{
        str(wrong): answer_with([{"token": "yes", "logprob": wrong}, NO]) for wrong in (math.nan, math.inf, 0.4, "high")
    },
    "null": answer_with([{"token": "yes", "logprob": None}, NO]),
    "no token": answer_with([{"logprob": math.log(0.8)}, NO]),
    "no top": answer_with(MISSING),
    "no logprobs": answer_of({}),
    "empty content": answer_of({"content": []}),
    "no choices": {"choices": []},
}


@pytest.mark.parametrize("change", BROKEN)
def test_an_answer_without_sound_probabilities_gives_no_score(change: str) -> None:
    with loopback(lambda _asked: CannedResponse(json.dumps(BROKEN[change]))) as server:
        model = load_chat_model("openai_compatible", base_url=server.url, name="m", tries=1)
        (answer,) = model.reply([ChatRequest((Message("user", "yes or no?"),), is_scored=True)])
    assert isinstance(answer, Failure) and answer.reason in ("no_score", "not_json"), change


@pytest.mark.parametrize(
    "shares",
    [
        {"yes": 0.9, "no": 0.5},  # more than all
        {"A": 0.7, "B": 0.3},  # neither word
        {"The": 0.9, "yes": 0.05, "no": 0.05},  # it began a sentence
        {"yes": 0.55, "maybe": 0.25},  # what is cut off may be no
        {"yes": 0.3, "no": 0.1, "maybe": 0.6},  # most of it is neither
        {"yesterday": 0.9, "nothing": 0.1},
        {"不知道": 0.9, "是": 0.1},
    ],
)
def test_doubtful_probabilities_give_no_score(shares: dict[str, float]) -> None:
    assert read_yes_share(completion(shares)) is None


@pytest.mark.parametrize(
    "envelope",
    [
        {"results": [{"index": 0, "relevance_score": 3.5}]},
        {"results": [{"index": 1, "relevance_score": 9}, {"index": 0, "relevance_score": 3.5}]},
        [{"index": 0, "score": 3.5}],
        {"data": [{"index": 0, "score": 3.5, "object": "score"}], "object": "list"},
        {"results": [{"index": 0, "relevance_score": 3.5, "document": {"text": "x"}}], "meta": {}},
    ],
)
def test_scores_are_read_in_all_forms_on_any_scale(envelope: Any) -> None:
    assert read_rank_score(envelope) == 3.5


BAD_RANKS: list[Any] = [
    {"results": [{"index": 1, "relevance_score": 1}]},
    {"results": [{"index": 0, "relevance_score": 1}, {"index": 0, "relevance_score": 2}]},
    {"results": [{"index": 0, "relevance_score": "high"}]},
    {"results": [{"index": 0, "relevance_score": True}]},
    {"results": [{"index": 0}]},
    {"results": [None]},
    {"results": {"0": 1}},
    {},
    [],
    None,
    {"error": {"message": "no such model"}},
]


@pytest.mark.parametrize("form", ["rerank", "score"])
@pytest.mark.parametrize("envelope", BAD_RANKS, ids=str)
def test_an_endpoint_that_gives_no_score_is_a_failure(envelope: Any, form: str, tmp_path: Path) -> None:
    with loopback(lambda _asked: CannedResponse(json.dumps(envelope))) as server:
        model = load_chat_model("rerank", base_url=server.url, name="m", tries=1, form=form)
        (answer,) = model.reply([pair(tmp_path)])
        assert len(server.asked) == 1
    assert isinstance(answer, Failure)


def pair(folder: Path) -> ChatRequest:
    path = folder / "a.jpg"
    path.write_bytes(make_jpeg((200, 30, 30), (80, 60)))
    image = ChatImage(path, hashlib.sha256(path.read_bytes()).hexdigest(), image_id="i1")
    return ChatRequest((Message("user", "a red thing", (image,)),), item="q1", is_scored=True)


@pytest.mark.parametrize(
    ("form", "path", "keys"),
    [
        ("rerank", "/v1/rerank", {"model", "query", "documents", "top_n"}),
        ("jina", "/v1/rerank", {"model", "query", "documents", "top_n"}),
        ("score", "/v1/score", {"model", "text_1", "text_2"}),
    ],
)
def test_a_pair_goes_out_as_the_endpoint_takes_it(form: str, path: str, keys: set[str], tmp_path: Path) -> None:
    answer = {"data": [{"index": 0, "score": -2.25}]} if form == "score" else {"results": [{"relevance_score": -2.25}]}
    with loopback(lambda _asked: CannedResponse(json.dumps(answer))) as server:
        model = load_chat_model("rerank", base_url=f"{server.url}/v1", name="m", form=form)
        (reply,) = model.reply([pair(tmp_path)])
        (asked,) = server.asked
    assert isinstance(reply, Reply) and read_score(reply.text) == -2.25
    assert asked.path == path and set(asked.json) == keys
    assert "data:image/" in json.dumps(asked.json) and "a red thing" in json.dumps(asked.json)


@pytest.mark.parametrize("form", ["tei", "cohere", "rerank", "jina", "score"])
def test_captions_go_out_in_place_of_an_image(form: str, tmp_path: Path) -> None:
    (tmp_path / "captions.csv").write_text("image_id,caption\ni1,A red wall.\ni1,Paint\ni2,A dog\n")
    bodies: dict[str, Any] = {"tei": [{"index": 0, "score": 0.75}], "score": {"data": [{"index": 0, "score": 0.75}]}}
    answer = bodies.get(form, {"id": "x", "results": [{"index": 0, "relevance_score": 0.75}], "meta": {}})
    with loopback(lambda _asked: CannedResponse(json.dumps(answer))) as server:
        given = {"form": form, "captions": tmp_path / "captions.csv", "tries": 1}
        model = load_chat_model("rerank", base_url=f"{server.url}/v2", name="m", **given)
        here = pair(tmp_path)
        unknown = ChatRequest((Message("user", "a cat", (ChatImage(Path("no"), "", image_id="i3"),)),), is_scored=True)
        reply, missing = model.reply([here, unknown])
        (asked,) = server.asked
    assert isinstance(reply, Reply) and read_score(reply.text) == 0.75
    assert isinstance(missing, Failure) and missing.reason == "no_caption"
    text = "A red wall.\nPaint"
    expected: dict[str, Any] = {"model": "m", "query": "a red thing", "documents": [text], "top_n": 1}
    if form == "tei":
        expected = {"query": "a red thing", "texts": [text], "truncate": True}
    if form == "jina":
        expected |= {"documents": [{"text": text}]}
    if form == "score":
        expected = {"model": "m", "text_1": "a red thing", "text_2": text}
    assert asked.json == expected and asked.path == ("/v2/score" if form == "score" else "/v2/rerank")
    assert len(model.identity.parameters["captions"]) == 12


@pytest.mark.parametrize("form", ["tei", "cohere"])
def test_an_api_of_texts_needs_captions(form: str) -> None:
    with pytest.raises(UserError, match="captions=FILE"):
        load_chat_model("rerank", base_url="http://127.0.0.1:9/v1", name="m", form=form)


def test_a_probability_is_asked_for_and_stored_as_a_number() -> None:
    with loopback(lambda _asked: CannedResponse(completion({"Yes": 0.75, "No": 0.25}))) as server:
        model = load_chat_model("openai_compatible", base_url=server.url, name="m")
        (reply,) = model.reply([ChatRequest((Message("user", "yes or no?"),), is_scored=True)])
        (asked,) = server.asked
    assert isinstance(reply, Reply) and read_score(reply.text) == pytest.approx(0.75)
    assert asked.json["logprobs"] is True and asked.json["top_logprobs"] == 20


@pytest.mark.parametrize("text", ["{}", "0.5", '{"score": NaN}', '{"score": "1"}', '{"score": null}', "yes", "[]", ""])
def test_a_reply_that_is_no_number_is_none(text: str) -> None:
    assert read_score(text) is None


def test_scores_from_a_table_are_found_by_pair(tmp_path: Path) -> None:
    file = tmp_path / "scores.csv"
    file.write_text("query_id,image_id,score\nq1,i1,0.25\nq2,i1,0.75\n")
    model = load_chat_model("scores_file", file=file, name="mine")
    here = pair(tmp_path)
    (found,) = model.reply([here])
    assert isinstance(found, Reply) and read_score(found.text) == 0.25 and model.identity.name == "mine"
    assert isinstance(model.reply([ChatRequest(here.messages, item="q3", is_scored=True)])[0], Failure)


HEAD = "query_id,image_id,score\n"


@pytest.mark.parametrize(
    "text", ["query_id,image_id\nq1,i1\n", HEAD + "q1,i1,high\n", HEAD + "q1,i1,nan\n", HEAD + "q1,i1,1\nq1,i1,2\n"]
)
def test_a_table_without_sound_scores_is_refused_in_one_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "scores.csv").write_text(text)
    with pytest.raises(UserError, match="read scores"):
        load_chat_model("scores_file", file=tmp_path / "scores.csv")
