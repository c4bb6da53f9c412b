"""The Python API: what `import querytruth as qt` gives."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import querytruth as qt
from querytruth.sets.decision_log import append_decisions
from querytruth.sets.decision_records import QueryDecision
from querytruth.sets.set_files import StoredSet
from tests.flows.stub_generator import StubGenerator, answering, define_stages
from tests.images import make_jpeg
from tests.loopback import loopback
from tests.small_sets import image_id_of, publish_small_set, query_id_of, small_tables


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StoredSet:
    monkeypatch.chdir(tmp_path)
    return publish_small_set(tmp_path, small_tables(graded=False))


def right_answers(text: str) -> list[str]:
    texts = small_tables(graded=False).queries.set_index("text")["query_id"]
    qrels = small_tables(graded=False).qrels
    return list(qrels[qrels["query_id"] == texts[text]]["image_id"])


@pytest.mark.thorough
def test_the_import_loads_nothing_heavy_and_offers_every_name() -> None:
    program = (
        "import sys, querytruth as qt; heavy = {'torch', 'prefect', 'pandas', 'pydantic', 'typer'} & set(sys.modules); "
        "assert not heavy, heavy; assert set(qt.__all__) == set(dir(qt)); [getattr(qt, name) for name in qt.__all__]; "
        "heavy = {'torch', 'prefect', 'transformers'} & set(sys.modules); assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[2])
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        getattr(qt, "nonsense")  # noqa: B009 - mypy knows that there is none


def test_a_set_by_name_and_version_as_data_frames(small: StoredSet) -> None:
    loaded = qt.load("small/v1", out="sets")
    assert loaded.name == "small/v1" and loaded.path.resolve() == small.path.resolve()
    assert repr(loaded) == "<precision set small/v1: 4 queries, 4 images, 4 judgments>"
    assert list(loaded.queries["text"]) == list(small.tables.queries["text"])
    assert set(loaded.qrels.columns) >= {"query_id", "image_id", "relevance", "judged_by", "evidence"}
    assert loaded.images.set_index("image_id")["file_name"][image_id_of("dog")] == "holiday/dog 1.jpg"
    assert loaded.manifest["licence"] == "CC0-1.0" and "# A small set" in loaded.card
    assert set(loaded.locate_images()) == set(loaded.images["image_id"])
    assert loaded._repr_html_().count("<tr>") >= 5
    with pytest.raises(qt.UserError) as caught:
        qt.load("smal", out="sets")
    error = caught.value
    assert (error.item, error.next_step) == ("smal", "choose from small") and "no published version" in error.reason


def test_a_query_is_shown_with_its_images_whatever_its_text_holds(small: StoredSet) -> None:
    view = qt.load(small).show("a dog, wet")
    assert list(view.judgments["image_id"]) == [image_id_of("dog")] and list(view.judgments["relevance"]) == [1]
    page = view._repr_html_()
    assert page.count("<img") == 1 and "data:image/jpeg;base64," in page and "1 judged image<" in page
    assert qt.load(small).show(query_id_of("dog")).query["text"] == "a dog, wet"
    hostile = small_tables(graded=False)
    hostile.queries.loc[0, "text"] = "<script>alert(1)</script>"
    stored = publish_small_set(small.path.parents[2], hostile, name="hostile")
    page = qt.load(stored).show("<script>alert(1)</script>")._repr_html_() + qt.load(stored)._repr_html_()
    assert "<script" not in page and "&lt;script&gt;" in page
    with pytest.raises(qt.UserError, match="is not a query of small/v1"):
        qt.load(small).show("a unicorn")


@pytest.mark.thorough
def test_the_same_system_as_a_search_a_table_a_dict_vectors_and_a_file(small: StoredSet) -> None:
    loaded = qt.load(small)
    by_search = qt.evaluate(loaded, search=lambda text, k: right_answers(text), name="mine")
    assert by_search["hit@1"] == 1 and by_search.result.system == {"kind": "search", "name": "mine"}
    rows = loaded.qrels.assign(score=1.0)[["query_id", "image_id", "score"]]
    by_table = qt.evaluate(loaded, run=rows)
    by_dict = qt.evaluate(loaded, run={q: {i: 2.5} for q, i in zip(rows["query_id"], rows["image_id"], strict=True)})
    rows.to_parquet("mine.parquet")
    by_file = qt.evaluate("small", run="mine.parquet", out="sets")
    images = np.eye(4, dtype=np.float32)
    places = {image_id: place for place, image_id in enumerate(loaded.images["image_id"])}
    queries = np.array([images[places[right_answers(text)[0]]] for text in loaded.queries["text"]])
    by_vectors = qt.evaluate(loaded, vectors=(queries, images))
    for one in (by_table, by_dict, by_file, by_vectors):
        columns = ["metric", "value", "low", "high"]
        pd.testing.assert_frame_equal(one.figures[columns], by_search.figures[columns])
    assert not (small.path.parent / "evaluations").exists()
    assert "mine on small/v1, 4 queries" in by_search._repr_html_() and "hit@1 1.000" in repr(by_search)


def test_scores_of_a_search_decide_and_bare_ids_keep_their_order(small: StoredSet) -> None:
    every = sorted(small.tables.images["image_id"])
    bare = qt.evaluate(small, search=lambda text, k: every[:k], metrics=["hit@1"])
    first = bare.ranked[bare.ranked["rank"] == 1]["image_id"]
    assert set(first) == {every[0]}
    scored = qt.evaluate(small, search=lambda text, k: [(one, n) for n, one in enumerate(every)], metrics=["hit@1"])
    assert set(scored.ranked[scored.ranked["rank"] == 1]["image_id"]) == {every[-1]}
    mapped = qt.evaluate(small, search=lambda text, k: {one: n for n, one in enumerate(every)}, metrics=["hit@1"])
    pd.testing.assert_frame_equal(mapped.ranked, scored.ranked)
    assert scored.result.metrics == ["hit@1"]
    with pytest.raises(qt.UserError, match="was not evaluated"):
        scored["ndcg@10"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({}, "the system .evaluate.: is missing"),
        ({"baseline": "oracle", "model": "clip"}, "evaluate them one by one"),
        ({"baseline": "oracle", "direction": "sideways"}, "must be 'text_to_image'"),
        ({"baseline": "oracel"}, "did you mean 'oracle'"),
        ({"run": pd.DataFrame({"query_id": ["a"], "score": [1.0]})}, "has no column image_id"),
        ({"run": {}}, "contains no rows"),
        ({"search": lambda text, k: [1, 2]}, "returned 1"),
        ({"search": lambda text, k: ["a"], "direction": "image_to_text"}, "searches by texts"),
        ({"vectors": (np.zeros((3, 2)), np.zeros((4, 2)))}, r"the shape \(3, 2\), but there are 4 queries"),
        ({"vectors": (np.zeros((4, 2)), np.zeros((4, 3)))}, "have 2 dimensions, but the vectors of the images have 3"),
        ({"vectors": (np.zeros((4, 2)),)}, "contains 1 arrays"),
        ({"vectors": (np.zeros((4, 2)), np.full((4, 2), np.nan))}, "is not finite"),
    ],
)
@pytest.mark.thorough
def test_a_wrong_argument_is_one_line_with_its_next_step(
    small: StoredSet, arguments: dict[str, Any], reason: str
) -> None:
    with pytest.raises(qt.UserError, match=reason) as caught:
        qt.evaluate(small, **arguments)
    assert caught.value.next_step


def test_two_systems_are_compared_by_their_names(small: StoredSet) -> None:
    oracle = qt.evaluate(small, baseline="oracle", metrics=["ndcg@10"])
    worst = {query: {image_id_of("tree"): 1.0} for query in small.tables.queries["query_id"]}
    compared = qt.compare(small, {"best": oracle, "worst": worst}, metrics=["ndcg@10"], page="compared.html")
    (row,) = compared.table.to_dict("records")
    assert (row["one"], row["other"], row["difference"], row["wins"]) == ("best", "worst", 1.0, 4)
    assert list(compared.most_different.columns) == ["query_id", "text", "best", "worst", "difference"]
    assert Path("compared.html").exists() and "best minus worst: ndcg@10 +1.0000" in repr(compared)
    assert "best, worst on 4 queries" in compared._repr_html_()
    with pytest.raises(qt.UserError, match="are not two or more"):
        qt.compare(small, [oracle])


@pytest.mark.thorough
def test_typed_definitions_dicts_and_files_build_the_same_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for number in range(4):
        path = tmp_path / "photos" / f"{number}.jpg"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(make_jpeg((60 * number, 255 - 60 * number, 90), (100, 80)))
    typed = qt.Gallery(name="album", images="photos", near_duplicates={"distance": None}, out=tmp_path / "sets")
    first = qt.build(typed)
    assert first.is_new and first.set.name == "album/v1" and len(first.set.images) == 4
    assert first.page is not None and first.page.exists() and repr(first).startswith("published: <gallery set album/v1")
    assert first.funnel["stage"][0] == first.set.manifest["funnel"][0]["stage"]
    keys = {"kind": "gallery", "name": "album", "images": Path("photos"), "near_duplicates": {"distance": None}}
    again = qt.build(keys, overrides={"out": tmp_path / "sets"})
    assert not again.is_new and again.path == first.path
    Path("album.yaml").write_text(
        f"{{kind: gallery, name: album, images: photos, near_duplicates: {{distance: null}}, out: {tmp_path / 'sets'}}}"
    )
    assert not qt.build("album.yaml").is_new
    assert qt.plan(typed)["images"] == 4
    assert qt.load(first).diff(again).comparability == "the versions have the same content: figures are comparable"


@pytest.mark.parametrize(
    ("make", "item", "reason"),
    [
        (lambda: qt.Recall(name="a", imagse="x"), "RecallDefinition", "key 'imagse' is unknown"),
        (lambda: qt.Gallery(name="A b", images="x"), "GalleryDefinition", "key 'name'"),
        (lambda: qt.build({"name": "a", "images": "x"}), "definition", "key 'kind' is missing"),
        (lambda: qt.build({"kind": "galery", "name": "a"}), "definition", "unknown kind 'galery'"),
        (lambda: qt.build({"kind": "training", "name": "a", "set": "b"}), "a", "has kind training"),
        (
            lambda: qt.build(qt.Gallery(name="a", images="x"), overrides={"seed": 1}),
            "GalleryDefinition",
            "overrides",
        ),
        (lambda: qt.build("missing.yaml"), "missing.yaml", "cannot be read"),
    ],
)
def test_a_wrong_definition_is_one_line(make: Any, item: str, reason: str) -> None:
    with pytest.raises(qt.UserError, match=reason) as caught:
        make()
    assert caught.value.item == item and caught.value.next_step


def test_decisions_are_applied_and_the_versions_differ(small: StoredSet) -> None:
    loaded = qt.load(small)
    assert qt.verify(loaded) == []
    findings = qt.load(loaded).lint()
    assert list(findings.columns) == ["check", "severity", "count", "says", "examples"]
    append_decisions(small.path.parent, [QueryDecision(query_id_of("cat"), "'cat'\nasleep", "drop")])
    done = qt.load(loaded).apply()
    assert done.is_new and done.set.name == "small/v2" and len(done.set.queries) == 3
    found = qt.load(loaded).diff(done)
    assert list(found.changes["change"]) == ["removed"] and "1 queries removed" in repr(found)
    assert "the queries differ" in found._repr_html_()
    with pytest.raises(qt.UserError, match="is not the newest version"):
        qt.load(loaded).apply()
    (done.path / "queries.parquet").write_bytes(b"damaged")
    assert any(line.startswith("queries.parquet") for line in qt.verify(done))


def test_a_set_goes_out_in_a_format_and_comes_back(small: StoredSet) -> None:
    assert isinstance(qt.load(small).export("beir", "out/small", allow_loss=True), list)
    back = qt.import_set("beir", "out/small", "sets/back")
    assert back.is_new and back.set.manifest["kind"] == "imported" and len(back.set.queries) == 4
    with pytest.raises(qt.UserError, match="unknown format"):
        qt.load(small).export("beri", "out/other")


@pytest.mark.thorough
def test_a_stage_is_the_command_of_its_name(tmp_path: Path) -> None:
    with loopback(answering(StubGenerator())) as server:
        topics = qt.generate(define_stages(tmp_path, server.url), "topics")
        assert topics.calls == len(server.asked) > 0 and topics.file.name == "topics.csv"
        assert qt.generate(define_stages(tmp_path, server.url), "topics", offline=True).calls == 0, "replies are stored"
    with pytest.raises(qt.UserError, match=r"has kind 'gallery'\. Next: run querytruth build"):
        qt.generate({"kind": "gallery", "name": "album", "images": str(tmp_path)}, "objects")


def test_one_query_on_a_run(tmp_path: Path) -> None:
    small = publish_small_set(tmp_path, small_tables())
    right = small.tables.qrels.query("relevance == 2").iloc[0]
    text = small.tables.queries.set_index("query_id")["text"].loc[right["query_id"]]
    (tmp_path / "run.trec").write_text(f"{right['query_id']} Q0 {right['image_id']} 1 1.0 x\n")
    found = qt.load(small.path).search(text, run=tmp_path / "run.trec", page=tmp_path / "search.html")
    assert [hit["grade"] for hit in found.hits] == [2] and (tmp_path / "search.html").is_file()
    with pytest.raises(qt.UserError, match=r"must be exactly one\. Next: give one of model, system, run"):
        qt.load(small.path).search(text)


def test_a_table_names_images_as_it_is_told_and_a_folder_of_runs_is_not_one_system(tmp_path: Path) -> None:
    small = publish_small_set(tmp_path, small_tables())
    right = small.tables.qrels.query("relevance == 2").iloc[0]
    names = small.tables.images.set_index("image_id")["file_name"]
    table = pd.DataFrame({"query_id": [right["query_id"]], "image_id": [names[right["image_id"]]], "score": [1.0]})
    assert qt.evaluate(small.path, run=table, ids="file_name", metrics="hit@1", max_unknown=1)["hit@1"] > 0
    with pytest.raises(qt.UserError, match=r"scores .evaluate.: applies to run files only"):
        qt.evaluate(small.path, run=table, ids="file_name", scores="distance")
    (tmp_path / "runs").mkdir()
    for name in ("a", "b"):
        (tmp_path / "runs" / f"{name}.trec").write_text(f"{right['query_id']} Q0 {right['image_id']} 1 1.0 x\n")
    with pytest.raises(qt.UserError, match="is a folder of 2 runs"):
        qt.evaluate(small.path, run=tmp_path / "runs")
    with pytest.raises(qt.UserError, match=r"1 runs .compare.: are not two or more"):
        qt.compare(small.path, tmp_path / "runs" / "a.trec")


@pytest.mark.parametrize(
    ("ask", "reason"),
    [
        (lambda path: qt.load(path).rebuild(), "definition"),
        (lambda path: qt.open_audit(path / "audit.yaml"), "audit.yaml"),
    ],
)
def test_what_cannot_be_is_one_line(tmp_path: Path, ask: object, reason: str) -> None:
    small = publish_small_set(tmp_path, small_tables())
    with pytest.raises(qt.UserError, match=reason) as refused:
        ask(small.path)  # type: ignore[operator]
    assert "\n" not in str(refused.value)
