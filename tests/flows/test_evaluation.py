"""Systems of every kind on a small set: what they get, what is kept, and what is refused."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import pytrec_eval

from flows.definition_loader import load_definition
from flows.set_kinds import build_set
from querytruth.backends.steps import BuildRun, active_run
from querytruth.errors import UserError
from querytruth.evaluation import systems
from querytruth.evaluation.evaluation_result import IMAGE_TO_TEXT, TEXT_TO_IMAGE, EvaluationResult
from querytruth.evaluation.ground_truth import index_qrels
from querytruth.evaluation.judged_sets import JudgedSet, build_evaluation_view, load_judged_qrels, load_judged_set
from querytruth.evaluation.ranking import rank_run
from querytruth.evaluation.result_files import RESULT_FILE, read_per_query, read_result
from querytruth.evaluation.run_evaluation import EvaluationSpec, evaluate_run
from querytruth.evaluation.run_files import read_run
from querytruth.evaluation.steps import (
    find_result_folder,
    load_stored_results,
    result_folder_name,
    score_system,
    store_result,
)
from querytruth.evaluation.systems import EvaluatedSystem
from querytruth.review.query_selection import draw_family_profile
from querytruth.sets import set_files
from querytruth.sets.benchmark_set import Tables
from tests.images import draw_scene
from tests.review.page_reader import ParsedPage
from tests.small_sets import gallery_tables, image_id_of, publish_small_set, query_id_of, small_tables

IMAGES, PER_QUERY = 60, 4


def draw(path: Path, number: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draw_scene(number, (96, 72)).save(path)


@pytest.fixture
def album(tmp_path: Path) -> Path:
    """A recall set of eight images with captions that letters can spell."""
    words = ["dog", "cat", "cow", "car", "bus", "tree", "boat", "bird"]
    for number, word in enumerate(words):
        draw(tmp_path / "album" / f"{word}.png", number)
    rows = ["file_name,language,caption", *[f"{word}.png,en,one {word} on the beach" for word in words]]
    (tmp_path / "captions.csv").write_text("\n".join(rows))
    keys = ["name=album", f"out={tmp_path / 'sets'}", "render.size=64", f"images={tmp_path / 'album'}"]
    keys += [
        "captions.prompt=[en/caption]",
        "captions.model=captions_file",
        f"captions.options.path={tmp_path / 'captions.csv'}",
    ]
    with active_run(BuildRun()):
        result = build_set(load_definition(None, [*keys, "ambiguity.text_embedder=char_ngrams"], "recall"))
    return result.path


def qrels_file(folder: Path, queries: int = 40) -> Path:
    """Judgments of 60 images: four relevant ones a query, of grade 1 or 2, and as many judged 0."""
    rng = random.Random(5)
    lines = []
    for number in range(queries):
        for place, image in enumerate(rng.sample(range(IMAGES), 2 * PER_QUERY)):
            lines.append(f"q{number} 0 img_{image} {[2, 1, 1, 2, 0, 0, 0, 0][place]}")
    path = folder / "judged.qrels"
    path.write_text("\n".join(lines))
    return path


def run_rows(queries: int = 40) -> list[tuple[str, str, float]]:
    rng = random.Random(6)
    return [(f"q{n}", f"img_{m}", rng.choice([0.1, 0.2, 0.3, 0.4])) for n in range(queries) for m in range(IMAGES)]


def write_run(path: Path, rows: list[tuple[str, str, float]]) -> Path:
    if path.suffix == ".json":
        nested: dict[str, dict[str, float]] = {}
        for query, image, score in rows:
            nested.setdefault(query, {})[image] = score
        path.write_text(json.dumps(nested))
    elif path.suffix in (".csv", ".parquet"):
        table = pd.DataFrame(rows, columns=["query_id", "image_id", "score"])
        table.to_csv(path, index=False) if path.suffix == ".csv" else table.to_parquet(path)
    else:
        path.write_text("\n".join(f"{query} Q0 {image} 1 {score} x" for query, image, score in rows))
    return path


def result(
    judged: JudgedSet, system: EvaluatedSystem, *metrics: str, way: str = TEXT_TO_IMAGE, k: int | None = None
) -> EvaluationResult:
    return score_system(
        build_evaluation_view(judged, way, metrics or ("hit@1", "r@5", "rr", "ndcg@10"), (0.9,)), system, k
    ).result


def figures(found: EvaluationResult) -> dict[str, float]:
    return dict(zip(found.figures["metric"], found.figures["value"], strict=True))


# --- files of other programs
@pytest.mark.parametrize("suffix", ["trec", "json", "csv", "parquet"])
def test_a_run_file_gets_what_trec_eval_gives_it(tmp_path: Path, suffix: str) -> None:
    judged, rows = load_judged_qrels(qrels_file(tmp_path)), run_rows()
    system = systems.load_run_system(write_run(tmp_path / f"mine.{suffix}", rows))
    found = result(judged, system, "p@5", "r@10", "rr", "ap", "ndcg@10(gain=linear)", "p@r")
    nested = {f"q{n}": {image: score for query, image, score in rows if query == f"q{n}"} for n in range(40)}
    truth: dict[str, dict[str, int]] = {}
    for row in judged.qrels.itertuples():
        truth.setdefault(row.query_id, {})[row.image_id] = int(row.relevance)
    names = {"p@5": "P_5", "r@10": "recall_10", "rr": "recip_rank", "ap": "map", "p@r": "Rprec"}
    names["ndcg@10(gain=linear)"] = "ndcg_cut_10"
    theirs = pytrec_eval.RelevanceEvaluator(truth, {"P.5", "recall.10", "recip_rank", "map", "Rprec", "ndcg_cut.10"})
    expected = theirs.evaluate(nested)
    for ours, name in names.items():
        for query, of in expected.items():
            assert found.per_query[ours][query] == pytest.approx(of[name], abs=1e-12)
    assert found.system["kind"] == "run" and found.system["name"] == "mine" and len(found.system["sha256"]) == 64
    assert found.set == judged.description and found.set["version"] == 0


def test_the_order_of_rows_changes_not_a_byte(tmp_path: Path) -> None:
    judged, rows = load_judged_qrels(qrels_file(tmp_path)), run_rows()
    folders = []
    for number in range(2):
        random.Random(number).shuffle(rows)
        folder = tmp_path / f"result {number}"
        place = write_run(tmp_path / "a.json", rows)
        view = build_evaluation_view(judged, TEXT_TO_IMAGE, ("hit@1", "ndcg@10"), (0.9,))
        store_result(score_system(view, systems.load_run_system(place)), None, folder)
        folders.append(folder)
    for name in ("run.parquet", "per_query.parquet", "per_query.csv"):
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes()
    one, other = (read_result(folder) for folder in folders)
    for told in (one, other):
        del told["envelope"], told["result_digest"]
        told["system"].pop("sha256")
    assert one == other


def test_a_query_that_is_left_out_counts_as_0_and_a_strange_one_is_refused(tmp_path: Path) -> None:
    judged = load_judged_qrels(qrels_file(tmp_path))
    perfect = [(row.query_id, row.image_id, float(row.relevance)) for row in judged.qrels.itertuples() if row.relevance]
    left_out = [row for row in perfect if row[0] not in ("q0", "q1", "q2", "q3")]
    found = result(judged, systems.load_run_system(write_run(tmp_path / "a.csv", left_out)))
    assert figures(found)["hit@1"] == 0.9
    assert next(w for w in found.warnings if w.code == "missing_queries").detail.startswith("the run omits 4 of 40")
    strange = systems.load_run_system(write_run(tmp_path / "b.csv", [*perfect, ("q99", "img_1", 1.0)]))
    with pytest.raises(UserError, match=r"q99 .*is not a query of the qrels"):
        result(judged, strange)


@pytest.mark.parametrize("score", ["nan", "inf"])
def test_a_score_that_is_no_number_is_refused_in_one_line(tmp_path: Path, score: str) -> None:
    judged = load_judged_qrels(qrels_file(tmp_path))
    system = systems.load_run_system(write_run(tmp_path / "a.trec", [("q3", "img_1", float(score))]))
    with pytest.raises(UserError) as refused:
        result(judged, system)
    assert "q3" in str(refused.value) and "\n" not in str(refused.value)


def test_a_matrix_answers_both_ways_whichever_way_it_lies(tmp_path: Path) -> None:
    stored = publish_small_set(tmp_path, small_tables(graded=False))
    judged = load_judged_set(stored.path)
    texts, images = stored.tables.queries["query_id"].tolist(), stored.tables.images["image_id"].tolist()
    (tmp_path / "texts.txt").write_text("\n".join(texts))
    (tmp_path / "pictures.txt").write_text("\n".join(images))
    matrix = np.random.default_rng(1).random((len(texts), len(images)))
    np.save(tmp_path / "m.npy", matrix)
    np.save(tmp_path / "turned.npy", matrix.T)
    plain = systems.load_similarity_system(tmp_path / "m.npy", tmp_path / "texts.txt", tmp_path / "pictures.txt")
    turned = systems.load_similarity_system(tmp_path / "turned.npy", tmp_path / "pictures.txt", tmp_path / "texts.txt")
    for way in (TEXT_TO_IMAGE, IMAGE_TO_TEXT):
        assert figures(result(judged, plain, way=way)) == figures(result(judged, turned, way=way))
    row = matrix[texts.index(query_id_of("cat"))]
    best = images[int(row.argmax())]
    found = result(judged, plain)
    assert found.ranked[found.ranked["query_id"] == query_id_of("cat")]["image_id"].iloc[0] == best
    asked = result(judged, plain, way=IMAGE_TO_TEXT)
    assert set(asked.per_query.index) == {image_id_of("dog"), image_id_of("beach"), image_id_of("cat")}


# --- baselines
def test_a_constant_scorer_gets_about_chance_and_is_warned_of(tmp_path: Path) -> None:
    """The classic defect counts a tie as a hit, which would give it 1."""
    queries = 200
    judged = load_judged_qrels(qrels_file(tmp_path, queries))
    rows = [(f"q{n}", f"img_{m}", 0.5) for n in range(queries) for m in range(IMAGES)]
    found = result(judged, systems.load_run_system(write_run(tmp_path / "same.parquet", rows)), "hit@1", "p@10")
    assert figures(found)["p@10"] == pytest.approx(PER_QUERY / IMAGES, abs=0.03)
    assert figures(found)["hit@1"] < 0.2
    assert {warning.metric for warning in found.warnings if warning.code == "ties"} == {"@1", "@10"}


@pytest.mark.thorough
def test_baselines_lie_where_they_must(album: Path) -> None:
    judged = load_judged_set(album)
    floor = result(judged, systems.make_baseline("random"), "hit@1", "hit@8")
    top = result(judged, systems.make_baseline("oracle"), "hit@1", "p@r")
    words = result(judged, systems.make_baseline("lexical"), "hit@1")
    assert figures(floor)["hit@8"] == 1 and floor.figures["chance"].tolist() == pytest.approx([1 / 8, 1])
    assert figures(top) == {"hit@1": 1, "p@r": 1}
    assert figures(words)["hit@1"] == 1, "the files are called what their captions say"
    assert words.counts["texts"] == {"source": "file_names", "rows": 8}
    assert {"few_queries"} <= {warning.code for warning in top.warnings}
    with pytest.raises(UserError, match="did you mean 'lexical'"):
        systems.make_baseline("lexicl")
    with pytest.raises(UserError, match="needs a gallery"):
        result(load_judged_qrels(qrels_file(album.parent)), systems.make_baseline("random"))


def test_the_words_that_lexical_goes_by(tmp_path: Path) -> None:
    judged = load_judged_set(publish_small_set(tmp_path, small_tables()).path)
    by_labels = result(judged, systems.make_baseline("lexical"), "hit@1")
    assert by_labels.counts["texts"]["source"] == "labels"
    assert by_labels.warnings[0].code == "words_of_the_truth"
    path = tmp_path / "told.csv"
    path.write_text("file_name,caption\nholiday/dog 1.jpg,'cat' asleep\nnobody.jpg,x\n", encoding="utf-8-sig")
    told = result(judged, systems.make_baseline("lexical", texts=path), "hit@1")
    assert told.counts["texts"] == {"source": "told.csv", "rows": 1}
    first = told.ranked[told.ranked["query_id"] == query_id_of("cat")]
    assert first["image_id"].tolist() == [image_id_of("dog")]
    path.write_text("name,caption\na,b\n")
    with pytest.raises(UserError, match="has the columns name, caption"):
        result(judged, systems.make_baseline("lexical", texts=path), "hit@1")


# --- results on disk
@pytest.mark.parametrize("linked", ["evaluations", "evaluations/v1", "evaluations/v1/random"])
def test_no_result_is_written_or_read_through_a_link_of_a_received_set(tmp_path: Path, linked: str) -> None:
    stored = publish_small_set(tmp_path, small_tables())
    (tmp_path / "private").mkdir()
    place = stored.path.parent / linked
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(tmp_path / "private")
    judged = load_judged_set(stored.path)
    with pytest.raises(UserError, match=rf"{place.name} \(write result\): is a link"):
        find_result_folder(judged, systems.make_baseline("random"))
    with pytest.raises(UserError, match=rf"{place.name} \(read result\): is a link"):
        load_stored_results(stored.path)


@pytest.mark.thorough
def test_a_result_lies_beside_its_set_and_comes_back(album: Path) -> None:
    judged = load_judged_set(album)
    system = systems.make_baseline("lexical")
    folder = find_result_folder(judged, system)
    assert folder == album.parent / "evaluations" / "v1" / "lexical"
    view = build_evaluation_view(judged, TEXT_TO_IMAGE, ("hit@1", "ap@r"), (0.9,))
    found = score_system(view, system)
    store_result(found, judged.queries, folder)
    assert list(set_files.verify_set(album)) == [], "the set itself is as it was"
    told = read_result(folder)
    assert told["schema_version"] == 1 and told["system"] == {"kind": "baseline", "name": "lexical"}
    assert told["set"]["content_digest"] == judged.description["content_digest"]
    assert told["figures"][0]["definition"] and told["conventions"]["ties"]
    assert "NaN" not in (folder / RESULT_FILE).read_text("utf-8")
    again = score_system(view, systems.load_run_system(folder))
    assert again.result.system == told["system"]
    pd.testing.assert_frame_equal(again.result.per_query, found.result.per_query)
    pd.testing.assert_frame_equal(
        read_per_query(folder, told)[["hit@1", "ap@r"]], found.result.per_query[["hit@1", "ap@r"]]
    )
    assert len(read_run(folder / "run.parquet")) == len(found.run)
    assert (folder / "per_query.csv").read_text("utf-8-sig").startswith("query_id,text,returned,hit@1")


def test_what_a_system_is_called_where_it_lies() -> None:
    model = {"kind": "model", "name": "openai/clip-vit", "revision": "files:0123456789abcdef", "index": "exact"}
    assert result_folder_name(EvaluatedSystem(model, None), TEXT_TO_IMAGE) == "openai-clip-vit-01234567"  # type: ignore[arg-type]
    assert result_folder_name(EvaluatedSystem(model | {"index": "hnsw"}, None), IMAGE_TO_TEXT) == (  # type: ignore[arg-type]
        "openai-clip-vit-01234567-hnsw.image_to_text"
    )
    run = {"kind": "run", "name": "../../a b"}
    assert result_folder_name(EvaluatedSystem(run, None), TEXT_TO_IMAGE) == "a-b"  # type: ignore[arg-type]


def test_sets_without_queries_and_damaged_results_are_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no queries"):
        load_judged_set(publish_small_set(tmp_path, gallery_tables()).path)
    with pytest.raises(UserError, match=r"contains no result\.json"):
        systems.load_run_system(tmp_path)
    (tmp_path / RESULT_FILE).write_text("{")
    with pytest.raises(UserError, match="cannot be read"):
        systems.load_run_system(tmp_path)
    with pytest.raises(UserError, match="cannot be read"):
        systems.load_run_system(tmp_path / "nowhere.trec")


FAMILIES = ["count", "size", "spatial", "negation", "attribute"]
LABELS = ["dog", "cat", "horse", "car", "bottle", "laptop"]
SET = {"name": "toy", "version": 1, "content_digest": "0", "kind": "precision", "title": "Toy"}


def draw_annotations() -> dict[str, Any]:
    """Three hundred images with up to six boxes of six labels, some large and some small."""
    drawn, colours = random.Random(7), random.Random(8)
    boxes = []
    for image in range(300):
        for _ in range(drawn.randint(1, 6)):
            side = drawn.choice([10, 12, 60, 70])
            x, y = drawn.randint(0, 100 - side), drawn.randint(0, 100 - side)
            boxes.append({"image_id": image, "category_id": drawn.randrange(len(LABELS)), "bbox": [x, y, side, side]})
    return {
        "images": [{"id": n, "file_name": f"{n:04}.jpg", "width": 100, "height": 100} for n in range(300)],
        "categories": [{"id": n, "name": name} for n, name in enumerate(LABELS)],
        "annotations": [
            {"id": n, "iscrowd": 0, "attributes": [colours.choice(["red", "blue", "green"])], **box}
            for n, box in enumerate(boxes)
        ],
    }


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    folder: Path = tmp_path_factory.mktemp("families")
    (folder / "boxes.json").write_text(json.dumps(draw_annotations()))
    definition = {
        "name": "toy",
        "kind": "precision",
        "annotations": "boxes.json",
        "labels": "coco80",
        "families": FAMILIES,
        "exhaustive": True,
        "exhaustive_attributes": True,
        "texts": ["word"],
        "searchable": {"area_ratio": 0.0},  # each box is prominent: twins are in the order of ids
        "mixes": {"levels": 2},
        "out": str(folder),
    }
    (folder / "toy.yaml").write_text(json.dumps(definition))
    return set_files.read_set(build_set(load_definition(folder / "toy.yaml", [], "precision")).path).tables


def rank_by_truth(tables: Tables, ignored: str = "") -> pd.DataFrame:
    """The relevant images, those that nobody judged, and then the negatives; for questions of the ignored family as if
    their twin were asked."""
    grades = {name: dict.fromkeys(tables.images["image_id"], -1) for name in tables.queries["query_id"]}
    for query, image, grade in tables.qrels[["query_id", "image_id", "relevance"]].itertuples(index=False):
        grades[query][image] = grade
    rows = []
    for query in tables.queries.itertuples():
        is_ignored = ignored and str(query.family).startswith(ignored) and isinstance(query.twin, str)
        of_query = grades[query.twin if is_ignored else query.query_id]
        ranked = sorted(of_query, key=lambda image: (-of_query[image] if of_query[image] else 2, image))[:20]
        rows += [(query.query_id, image, -float(place)) for place, image in enumerate(ranked)]
    return pd.DataFrame(rows, columns=["query_id", "image_id", "score"])


def evaluate(tables: Tables, ignored: str = "") -> EvaluationResult:
    truth = index_qrels(tables.qrels, tables.images["image_id"], tables.queries["query_id"])
    spec = EvaluationSpec(SET, truth, queries=tables.queries, metrics=["p@10"])
    system = {"kind": "run", "name": f"ignores {ignored}" if ignored else "oracle"}
    return evaluate_run(rank_run(rank_by_truth(tables, ignored), truth), spec, system)


def named(result: EvaluationResult) -> list[str]:
    return [warning.metric for warning in result.warnings if warning.code == "ignored_family"]


@pytest.mark.thorough
def test_each_question_has_the_query_for_what_is_to_be_seen_as_its_twin(tables: Tables) -> None:
    by_id = tables.queries.set_index("query_id")
    of_families = tables.queries[tables.queries["family"].notna()]
    assert of_families["twin"].notna().all() and by_id.loc[by_id["family"].isna(), "twin"].isna().all()
    texts = dict(zip(of_families["text"], by_id.loc[of_families["twin"], "text"], strict=True))
    of_dogs = ["dog, no cats anywhere", "exactly two dogs", "dog taking up much of the frame", "red dog"]
    assert {texts[name] for name in of_dogs} == {"dog"}
    assert texts["a dog to the left of a horse"] == "dog&horse" and texts["画面中有狗、没有猫"] == "狗"


@pytest.mark.thorough
def test_an_oracle_ignores_no_family(tables: Tables) -> None:
    result = evaluate(tables)
    assert named(result) == []
    assert result.counts["shortcuts"]["shortcut@10"] == 0.0


@pytest.mark.thorough
@pytest.mark.parametrize("family", FAMILIES)
def test_a_system_that_ignores_a_family_is_named(tables: Tables, family: str) -> None:
    result = evaluate(tables, family)
    assert named(result) == [family]
    rate = result.slices[(result.slices["slice"] == "family") & (result.slices["metric"] == "shortcut@10")]
    assert rate.set_index("value")["mean"].to_dict() == {name: float(name == family) for name in FAMILIES}


@pytest.mark.thorough
def test_few_questions_name_nothing(tables: Tables) -> None:
    """Two phrasings of four questions are four, and not eight."""
    negations = tables.queries[tables.queries["family"] == "negation/without"]
    kept = negations[negations["labels"].map("&".join).isin(negations["labels"].map("&".join).unique()[:4])]
    plain = tables.queries[tables.queries["family"].isna()]
    queries = pd.concat([plain, kept])
    qrels = tables.qrels[tables.qrels["query_id"].isin(queries["query_id"])]
    assert len(kept) == 8
    assert named(evaluate(Tables(queries, tables.images, qrels), "negation")) == []


@pytest.mark.thorough
def test_without_twins_nothing_is_measured(tables: Tables) -> None:
    queries = tables.queries.drop(columns="twin")
    spec = EvaluationSpec(SET, index_qrels(tables.qrels), queries=queries, metrics=["p@10"])
    result = evaluate_run(rank_run(rank_by_truth(tables, "negation"), spec.truth), spec, {"name": "mine"})
    assert "shortcuts" not in result.counts and named(result) == []


@pytest.mark.thorough
def test_a_family_with_many_kinds_has_one_line(tables: Tables) -> None:
    renamed = tables.queries.copy()
    asks_colour = renamed["family"].str.startswith("attribute/", na=False)
    renamed.loc[asks_colour, "family"] = [f"attribute/{number % 9}" for number in range(asks_colour.sum())]
    found = draw_family_profile({"oracle": evaluate(Tables(renamed, tables.images, tables.qrels))}, "p@10")
    assert found is not None
    (label,) = [tag["aria-label"] for _, tag in ParsedPage(found["plot"]).tags if "aria-label" in tag]
    assert "attribute 1.00" in label and "attribute/" not in label and "count/2" in label


@pytest.mark.thorough
def test_the_profile_shows_both_systems_by_kind(tables: Tables) -> None:
    one, other = evaluate(tables), evaluate(tables, "negation")
    found = draw_family_profile({"oracle": one, "deaf": other}, "p@10")
    assert found is not None
    assert [title for title, _ in found["panels"]] == ["p@10", "neg@10", "kept@10"]
    (label,) = [tag["aria-label"] for _, tag in ParsedPage(found["plot"]).tags if "aria-label" in tag]
    assert "negation/without 1.00 deaf" in label and "count/2" in label
    bare = evaluate(Tables(tables.queries.drop(columns=["family", "twin"]), tables.images, tables.qrels))
    assert draw_family_profile({"oracle": bare}, "p@10") is None
    assert np.isfinite(one.slices["mean"]).all()
