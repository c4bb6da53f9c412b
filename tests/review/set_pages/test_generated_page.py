"""The page of a generated set: queries with their images, where these come from, what was refused; nothing acts."""

from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from builders.generated.page import render_generated_page, select_generated
from builders.lint import lint_tables
from querytruth.records import empty_frame
from querytruth.sets.benchmark_set import Tables
from tests.images import make_jpeg
from tests.review.ledgers import make_ledger
from tests.review.page_reader import EVIL, ParsedPage
from tests.review.recall_sets import images_table, make_manifest, queries_table

HEALTH = {"accepted": 9, "replies": 3, "recent_acceptance": 0.5, "length": 2.5, "head": "", "head_share": 0.0}


def album(topics: int = 2, queries: int = 3, per_query: int = 2) -> Tables:
    """Every query has images of its own, and all share the last one."""
    asked, judged, names = [], [], ["shared"]
    for topic in range(topics):
        for number in range(queries):
            own = [f"t{topic}q{number}p{place}" for place in range(per_query - 1)]
            names += own
            query = f"q_{topic}{number}"
            asked.append({"query_id": query, "text": f"词{topic}{number}", "style": "object", "topic": f"题{topic}"})
            judged += [
                (query, f"img_{name}", 1, "web", f"result {11 * place + 2} of baidu: caption of {name}")
                for place, name in enumerate([*own, "shared"])
            ]
    columns = ["query_id", "image_id", "relevance", "judged_by", "evidence"]
    codes = dict.fromkeys(["query_id", "image_id", "judged_by", "evidence"], "category")
    qrels = pd.DataFrame(judged, columns=columns).astype({**codes, "relevance": "int8"})
    images = images_table(sorted(names))
    images = images.assign(
        source_url=[f"http://host.example/{name}" for name in sorted(names)],
        page_url="http://host.example/page",
        licence=["cc-by-4.0", *["cc-by-2.0"] * (len(names) - 1)],
        creator="Someone",
        caption="what the page says",
    )
    gone = {"text": "词00", "detail": "status 404"}
    few = {"measure": "reported_results", "value": 3, "threshold": 100}
    ledger = make_ledger(
        [
            ("http://a.example/1", "result", "images", "quarantined", "not_found", gone | {"rank": 3}),
            ("http://a.example/2", "result", "images", "quarantined", "not_found", gone | {"rank": 4}),
            ("http://a.example/3", "result", "results", "rejected", "advertisement", {"text": "词00", "rank": 1}),
            ("q_99", "query", "search", "rejected", "too_few_results", {"text": "词99"} | few),
            ("q_98", "query", "queries", "pending", "too_few_images", {"text": "词98"}),
            ("r", "row", "objects_rows", "rejected", "known", {"detail": "not shown here"}),
        ]
    )
    twins = pd.DataFrame(
        [
            ("dup_1", "img_shared", "http://host.example/shared", 640, 480, True, None, None, None),
            ("dup_1", "img_other", "http://b.example/copy", 320, 240, False, "views", 2, None),
        ],
        columns=empty_frame("duplicates").columns,
    ).astype({"distance": "Int16"})
    return Tables(queries_table(asked), images, qrels, ledger, duplicates=twins)


def manifest_for(set_: Tables, **changes: Any) -> dict[str, Any]:
    most = [{"host": "host.example", "there": 6, "failed": 1}]
    fetched = {"there": 7, "failed": {"not_found": 2}, "hosts": 3, "most": most}
    fetched |= {"first": "2026-03-01T08:00:00+00:00", "last": "2026-03-02T08:00:00+00:00"}
    by_topic = [{"topic": "题0", "queries": 4, "kept": 3}, {"topic": "题9", "queries": 2, "kept": 0}]
    stages = {name: {"health": {**HEALTH, "warnings": []}} for name in ("objects", "topics")}
    notes = {"collection": {"search": "baidu", "fetched": fetched, "by_topic": by_topic}, "stages": stages}
    return {**make_manifest(set_), "kind": "generated", "notes": notes, **changes}


def page_of(set_: Tables, thumbnails: dict[str, bytes] | None = None, **changes: Any) -> str:
    manifest = manifest_for(set_, **changes)
    return render_generated_page(set_, manifest, thumbnails or {}, lint_tables(set_), select_generated(set_))


def text_of(set_: Tables, **changes: Any) -> str:
    return ParsedPage(page_of(set_, **changes)).text


def test_queries_are_drawn_of_every_topic_in_turn_with_images_as_the_search_ranked_them() -> None:
    shown = select_generated(album(topics=3, queries=4, per_query=3))
    assert len({query.topic for query in shown.queries[:3]}) == 3
    first = next(query for query in shown.queries if query.text == "词00")
    assert [found.image_id for found in first.images] == ["img_t0q0p0", "img_t0q0p1", "img_shared"]
    assert [found.is_shared for found in first.images] == [False, False, True]


def test_a_large_set_shows_as_many_queries_as_a_page_holds_and_always_the_same() -> None:
    set_ = album(topics=20, queries=10, per_query=12)
    shown = select_generated(set_)
    assert len(shown.queries) == 40 and len({query.topic for query in shown.queries}) == 20
    frames = {name: getattr(set_, name) for name in ("queries", "images", "qrels", "ledger")}
    mixed = {name: one.sample(frac=1, random_state=3).reset_index(drop=True) for name, one in frames.items()}
    assert select_generated(replace(set_, **mixed)).queries == shown.queries
    assert "40 of 200 shown" in text_of(set_)


def test_provenance_stands_beside_every_image() -> None:
    seen = ParsedPage(page_of(album()))
    links = {attributes["href"] for tag, attributes in seen.tags if tag == "a" and attributes["href"][:1] != "#"}
    assert "http://host.example/t0q0p0" in links and "http://host.example/page" in links
    assert "result 2 of baidu: caption of t0q0p0" in seen.text and "Someone" in seen.text
    assert "fetched from 2026-03-01 to 2026-03-02" in seen.text
    assert "cc-by 7" in seen.text.replace("\n", " ")


def test_what_was_refused_is_told_by_stage_with_the_reason_and_examples() -> None:
    text = text_of(album())
    assert "2 not found no longer on its host" in text
    assert "result 3 of 词00, status 404 http://a.example/1" in text
    assert "1 too few results the search returns too few 词99, reported results 3, threshold 100" in text
    assert "1 too few images (may come yet)" in text
    assert "not shown here" not in text


def test_topics_show_what_people_chose_beside_what_has_images() -> None:
    text = text_of(album())
    assert "题0 3 of 4" in text and "题1 3 of 3" in text and "题9 0 of 2" in text
    assert text.index("topics 9 new from 3 replies") < text.index("objects 9 new from 3 replies")


def test_pictures_of_several_queries_and_at_several_addresses_are_shown() -> None:
    text = text_of(album())
    assert "1 in total. An image that the search finds for two queries is relevant for both." in text
    assert "http://host.example/shared" in text and "http://b.example/copy" in text


def test_a_set_of_a_local_album_needs_no_hosts_and_one_without_notes_opens() -> None:
    set_ = album()
    local = replace(set_, images=set_.images.assign(source_url=None, page_url=None, licence=None, creator=None))
    assert "cc-by" not in text_of(local, notes={}) and "from a local album" in text_of(local, notes={})
    nothing = replace(set_, qrels=set_.qrels[:0], ledger=empty_frame("ledger"), duplicates=empty_frame("duplicates"))
    assert "No image is relevant for this query." in text_of(nothing) and "Nothing." in text_of(nothing)


@pytest.mark.parametrize("evil", EVIL)
def test_nothing_that_the_web_says_acts(evil: str) -> None:
    set_ = album()
    images = set_.images.assign(
        caption=evil, creator=evil, licence=evil, source_url=evil, page_url=evil, file_name=None
    )
    ledger = set_.ledger.assign(item=evil, detail=evil, reason=evil)
    queries = set_.queries.assign(text=evil, topic=evil)
    qrels = set_.qrels.assign(evidence=pd.Categorical([evil] * len(set_.qrels)))
    duplicates = set_.duplicates.assign(item=evil)
    evil_set = Tables(queries, images, qrels, ledger, duplicates=duplicates)
    seen = ParsedPage(page_of(evil_set, {"img_shared": make_jpeg((9, 9, 9))}))
    acting = [tag for tag, _ in seen.tags if tag in ("script", "img", "iframe", "object", "base", "form")]
    assert acting == ["script"], "the page's own, for the filter"
    assert not [name for _, attributes in seen.tags for name in attributes if name.startswith("on")]
    hrefs = [attributes["href"] for tag, attributes in seen.tags if tag == "a"]
    assert all(href.startswith(("#", "http://", "https://")) for href in hrefs)


def test_the_images_are_inside_the_page() -> None:
    html = page_of(album(), {"img_shared": make_jpeg((200, 10, 10))})
    assert html.count("data:image/jpeg") == 1 and "Some images are not available" in html
    assert "Content-Security-Policy" in html


def test_people_chose_and_the_web_was_searched_only_where_that_is_so() -> None:
    set_ = album()
    notes = manifest_for(set_)["notes"]
    undecided = text_of(set_)
    assert "people chose" not in undecided and "an image search found on the web" in undecided
    chosen = notes | {"collection": {**notes["collection"], "choices_of_people": 3}}
    assert "and people selected." in text_of(set_, notes=chosen)
    nowhere = {**notes["collection"]["fetched"], "hosts": 0, "most": []}
    local = text_of(set_, notes=notes | {"collection": {**notes["collection"], "fetched": nowhere}})
    assert "on the web" not in local and "from a local album" in local
