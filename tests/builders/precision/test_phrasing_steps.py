"""A chat model words the queries of a precision set anew, over a real HTTP endpoint on loopback."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from builders.lint import lint_tables
from flows.definition_checks import check_definition
from flows.definition_loader import load_definition
from flows.precision_set import plan_precision
from flows.rebuild import rebuild_tables, refresh_replies
from flows.set_kinds import build_set
from querytruth.backends.steps import BuildRun, active_run
from querytruth.errors import UserError
from querytruth.sets import set_files
from querytruth.sets.query_texts import group_equivalent_queries
from tests.loopback import CannedResponse, Loopback, ReceivedRequest, loopback
from tests.manifest_cuts import unrecorded_cuts
from tests.worlds import chat_reply

Make = Callable[..., Path]
THINGS = ("dog", "car", "cat", "person")


def reply(question: str) -> str:
    """A model that knows English, and is wrong on purpose about three of four texts."""
    if question.startswith("These are the labels"):
        text = question.splitlines()[1].partition(": ")[2]
        named = [thing for thing in THINGS if re.search(rf"\b{thing}s?\b", text)]
        return ", ".join(named + ["other: sunset"] * ("sunset" in text))
    if question.startswith("First query"):
        return "no" if "do not show" in question.splitlines()[1] else "yes"
    query = re.sub(r"^an image (of|with) ", "", question.splitlines()[0].partition(": ")[2])
    return f"1. show me {query}\n2. {query} and a cat at sunset\n3. photos that do not show {query}\n4. one too many"


def answer(request: ReceivedRequest) -> CannedResponse:
    content = request.json["messages"][-1]["content"]
    text = reply(content if isinstance(content, str) else content[-1]["text"])
    return chat_reply(text, usage={"prompt_tokens": 100, "completion_tokens": 10})


@pytest.fixture
def server() -> Iterator[Loopback]:
    with loopback(answer) as running:
        yield running


def wanted(server: Loopback, **keys: Any) -> dict[str, Any]:
    options = {"base_url": f"{server.url}/v1", "name": "m"}
    return {
        "texts": ["word", "sentence", "llm"],
        "phrasings": {"model": "openai_compatible", "options": options, "count": 3},
        "families": ["negation", "count"],
        "exhaustive": True,
        "labels": "from_annotations",
        "mixes": {"levels": 2},
        **keys,
    }


def load(definition: Path, *overrides: str) -> Any:
    return load_definition(definition, list(overrides), "precision")


def test_phrasings_that_pass_every_check_have_the_truth_of_their_query(make_world: Make, server: Loopback) -> None:
    definition = load(make_world(**wanted(server)))
    planned = plan_precision(definition)
    assert not server.asked, "a plan asks nothing"
    built = build_set(definition)
    tables = set_files.read_set(built.path).tables
    texts = tables.queries.set_index("query_id")["text"]
    styles = tables.queries.set_index("query_id")["style"]
    relevant = {query: dict(zip(rows["image_id"], rows["relevance"], strict=True)) for query, rows in
                tables.qrels.astype({"query_id": "str", "image_id": "str"}).groupby("query_id")}  # fmt: skip
    new = tables.queries[tables.queries["style"] == "llm"]
    equivalent = group_equivalent_queries(tables.queries)
    assert len(new) >= 5 and planned["phrasings_at_most"] == 3 * len(new), "one of three passes"
    for query in new.itertuples(index=False):
        family = [one for one in equivalent[query.query_id] if one != query.query_id]
        assert {styles[one] for one in family} == {"word", "sentence"}
        sentence = next(one for one in family if styles[one] == "sentence")
        assert query.text == "show me " + re.sub(r"^an image (of|with) ", "", texts[sentence])
        assert relevant[query.query_id] == relevant[sentence]
    without = new[new["family"] == "negation/without"]
    assert len(without) and without["twin"].notna().all()
    stages = {stage["stage"]: stage for stage in built.manifest["funnel"]}
    assert stages["reworded"]["entered"] == stages["reworded"]["accepted"] == len(new)
    assert stages["phrasings"]["rejected"].keys() == {"over_the_count", "adds_label", "asks_something_else"}
    assert (
        planned["model_calls"]
        >= len(server.asked)
        == sum(one["calls"] for one in built.manifest["envelope"]["calls"].values())
    )
    assert unrecorded_cuts(built.manifest) == []
    assert "queries of style llm were written by a chat model" in " ".join(built.manifest["known_limitations"])
    assert {"en/phrasings", "en/phrasing_labels", "en/phrasing_question"} < {
        p["name"] for p in built.manifest["prompts"]
    }
    assert not [finding for finding in lint_tables(tables) if finding.severity == "error"]


def test_stored_replies_make_the_same_set_again(make_world: Make, server: Loopback) -> None:
    definition = load(make_world(**wanted(server)))
    first = build_set(definition)
    asked = len(server.asked)
    with active_run(BuildRun(offline=True)):
        assert not build_set(definition).is_new
        assert rebuild_tables(first.path).digest == first.manifest["content_digest"]
        assert plan_precision(definition)["model_calls"] == 0
    assert len(server.asked) == asked
    assert refresh_replies(definition, "m") == asked
    assert not build_set(definition).is_new and len(server.asked) == 2 * asked


def test_an_endpoint_that_is_down_is_one_line_and_a_check_finds_it(make_world: Make, server: Loopback) -> None:
    definition = load(make_world(**wanted(server)))
    with active_run(BuildRun(offline=True)), pytest.raises(UserError, match=r"write phrasings.*without --offline"):
        build_set(definition)
    assert {check.name for check in check_definition(definition)} >= {"prompts", "endpoint of phrasings"}
    down = load(make_world(**wanted(server)), "phrasings.options.base_url=http://127.0.0.1:9/v1")
    assert any(check.problem for check in check_definition(down))


def test_a_question_without_an_answer_is_pending(make_world: Make) -> None:
    def busy(request: ReceivedRequest) -> CannedResponse:
        text = request.json["messages"][-1]["content"]
        if text.startswith("First query") and "dog" in text:
            return CannedResponse({"error": "busy"}, status=503)
        return answer(request)

    with loopback(busy) as server:
        keys = wanted(server, families=[], mixes={"levels": 1})
        options = keys["phrasings"]["options"] | {"tries": 1}
        built = build_set(load(make_world(**keys | {"phrasings": keys["phrasings"] | {"options": options}})))
    stages = {stage["stage"]: stage for stage in built.manifest["funnel"]}
    assert sum(stages["phrasings"]["pending"].values()) == 2
    with loopback(answer) as server:
        keys = wanted(server, families=[], mixes={"levels": 1})
        again = build_set(load(make_world(**keys)))
    assert again.is_new and again.manifest["counts"]["queries"] == built.manifest["counts"]["queries"] + 1


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"texts": ["llm"]}, "rephrases other queries"),
        ({"texts": ["word"], "phrasings": {"count": 2}}, "phrasings has an effect only if.*add llm"),
        ({"texts": ["word"], "budget": {"calls": 1}}, "budget has an effect only if"),
        (
            {"texts": ["word", "llm"], "prompt_files": {"en/caption": "x.txt"}},
            "the definition uses no prompt of that name",
        ),
    ],
)
def test_keys_that_nothing_reads_are_refused(make_world: Make, keys: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        load(make_world(**keys))


def test_own_prompts_need_the_same_fields(make_world: Make, server: Loopback) -> None:
    keys = wanted(server, prompt_files={"en/phrasings": "mine.txt"})
    path = make_world(**keys)
    (path.parent / "mine.txt").write_text("Reword {query}.")
    with pytest.raises(UserError, match="the same fields as en/phrasings"):
        build_set(load(path))
    (path.parent / "mine.txt").write_text("Another wording, {count} times: {query}")
    assert build_set(load(path)).is_new
    assert any("Another wording, 3 times" in json.dumps(request.json) for request in server.asked)


def test_chinese_texts_have_chinese_checks(make_world: Make) -> None:
    def answer_in_chinese(request: ReceivedRequest) -> CannedResponse:
        text = request.json["messages"][-1]["content"]
        if text.startswith("这是一个图片集的标签"):
            content = "、".join(name for name in ("狗", "小汽车") if name in text.splitlines()[1])
        elif text.startswith("第一句"):
            content = "是"
        else:
            content = "找一下" + text.splitlines()[0].partition("：")[2].removeprefix("一张").removesuffix("的图片")
        return chat_reply(content)

    with loopback(answer_in_chinese) as server:
        keys = wanted(server, labels="coco80", languages=["zh"], families=[], mixes={"levels": 1}, parents=False)
        built = build_set(load(make_world(**keys)))
    tables = set_files.read_set(built.path).tables
    new: pd.DataFrame = tables.queries[tables.queries["style"] == "llm"]
    assert "找一下狗" in set(new["text"])
