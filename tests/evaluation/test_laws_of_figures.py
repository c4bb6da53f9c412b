"""Every figure is a function of what a person saw: a folder is searched, and whoever looks sees all of its photos.

The same answers come as a table, CSV, TREC, JSON lines, from a function and from a service on loopback; the laws are
those of Sakai, "Alternatives to Bpref" (SIGIR 2007), on condensed lists: an image that nobody knows never helps.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import querytruth as qt
from querytruth.errors import UserError
from querytruth.evaluation.evaluation_result import describe_queries
from querytruth.evaluation.ground_truth import index_qrels
from querytruth.evaluation.metric_scores import bound_waiting, score_run
from querytruth.evaluation.ranking import rank_run
from tests.images import make_jpeg
from tests.loopback import CannedResponse, ReceivedRequest, loopback

QUERIES = ["red kite", "blue door", "green boat", "红伞"]
PHOTOS = [f"album/{n:02}.jpg" for n in range(8)]  # of which the first four are right, one for each query
METRICS = ["hit@1", "hit@2", "rr@10", "p@5", "ndcg@10", "ap@10"]
RULES = (None, "condense", "keep")
Answers = Mapping[str, list[str]]  # file names by text, the best first


@pytest.fixture(scope="module")
def album(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set of a table that names four of the eight photos of a folder."""
    folder = tmp_path_factory.mktemp("album")
    for number, name in enumerate(PHOTOS):
        path = folder / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(make_jpeg((30 * number, 255 - 25 * number, 90), (64 + 8 * number, 48)))
    rows = zip(QUERIES, PHOTOS, strict=False)
    (folder / "golden.csv").write_text("query,image\n" + "".join(f"{query},{name}\n" for query, name in rows))
    built = qt.import_set("pairs", folder / "golden.csv", folder / "golden", images=folder / "photos")
    assert len(built.set.images) == len(PHOTOS)
    return built.set.path


def scored(answers: Answers) -> Iterator[tuple[str, str, int, float]]:
    for text, names in answers.items():
        for rank, name in enumerate(names, start=1):
            yield text, name, rank, 1 - rank / 100


def as_table(answers: Answers, _folder: Path) -> dict[str, Any]:
    rows = [(text, name, score) for text, name, _, score in scored(answers)]
    return {"run": pd.DataFrame(rows, columns=["query_id", "image_id", "score"])}


def as_csv(answers: Answers, folder: Path) -> dict[str, Any]:
    path = folder / "run.csv"
    pd.DataFrame(scored(answers), columns=["query_id", "image_id", "rank", "score"]).to_csv(path, index=False)
    return {"run": path}


def as_json_lines(answers: Answers, folder: Path) -> dict[str, Any]:
    path = folder / "run.jsonl"
    rows = [{"query_id": text, "image_id": name, "score": score} for text, name, _, score in scored(answers)]
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return {"run": path}


def as_trec(answers: Answers, folder: Path) -> dict[str, Any]:
    path, ids = folder / "run.trec", {text: str(n) for n, text in enumerate(QUERIES, start=1)}
    path.write_text("".join(f"{ids[text]} Q0 {name} {rank} {score} s\n" for text, name, rank, score in scored(answers)))
    return {"run": path}


def as_function(answers: Answers, _folder: Path) -> dict[str, Any]:
    return {"search": lambda text, k: answers.get(text, [])[:k]}


class Service:
    """A search on loopback that gives the answers of the moment."""

    def __init__(self) -> None:
        self.answers: Answers = {}
        self.url = ""

    def answer(self, request: ReceivedRequest) -> CannedResponse:
        names = self.answers.get(request.json["q"], [])
        return CannedResponse({"hits": [{"id": name, "score": 1 - n / 100} for n, name in enumerate(names, start=1)]})


SERVICE = Service()


@pytest.fixture(scope="module", autouse=True)
def service() -> Iterator[None]:
    with loopback(SERVICE.answer) as server:
        SERVICE.url = server.url
        yield


def as_service(answers: Answers, folder: Path) -> dict[str, Any]:
    SERVICE.answers = answers
    (folder / "search.yaml").write_text(
        f"system: http\nurl: {SERVICE.url}\nmethod: POST\nbody: {{q: '{{query}}'}}\n"
        "results: hits\nid: id\nscore: score\nids: file_name\n"
    )
    return {"system": folder / "search.yaml", "refresh": True}


FORMS = (as_table, as_csv, as_json_lines, as_trec, as_function, as_service)


def figures(album: Path, given: dict[str, Any]) -> dict[str, float]:
    found = qt.evaluate(album, metrics=METRICS, max_unknown=1, **given)
    return dict(zip(found.figures["metric"], found.figures["value"], strict=True))


def figures_and_bounds(album: Path, given: dict[str, Any]) -> dict[str, list[float]]:
    rows = qt.evaluate(album, metrics=METRICS, max_unknown=1, **given).figures
    return {row.metric: [row.value, row.at_least, row.at_most] for row in rows.itertuples()}


rankings = st.fixed_dictionaries({text: st.permutations(PHOTOS) for text in QUERIES})
both = [*PHOTOS, "elsewhere/0.jpg", "elsewhere/1.jpg"]
some_of_them = st.fixed_dictionaries({text: st.permutations(both).map(lambda names: names[:7]) for text in QUERIES})
FAST = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@FAST
@given(answers=rankings, places=st.lists(st.integers(0, 8), min_size=1, max_size=4), data=st.data())
def test_images_that_the_set_does_not_know_never_raise_a_figure(
    answers: Answers, places: list[int], data: st.DataObject, album: Path, tmp_path: Path
) -> None:
    text = data.draw(st.sampled_from(QUERIES))
    more = list(answers[text])
    for number, place in enumerate(places):
        more.insert(place, f"elsewhere/{number}.jpg")
    before = figures(album, as_table(answers, tmp_path))
    after = figures_and_bounds(album, as_table({**answers, text: more}, tmp_path))
    for metric, value in before.items():
        _, least, most = after[metric]
        assert least <= value + 1e-12 and most >= least


@FAST
@given(answers=rankings, text=st.sampled_from(QUERIES))
def test_losing_a_right_answer_never_raises_a_figure(answers: Answers, text: str, album: Path, tmp_path: Path) -> None:
    right = PHOTOS[QUERIES.index(text)]
    lost = {**answers, text: [name for name in answers[text] if name != right]}
    before, after = (figures(album, as_table(one, tmp_path)) for one in (answers, lost))
    assert all(after[metric] <= before[metric] + 1e-12 for metric in METRICS)
    assert after["rr@10"] < before["rr@10"]


@FAST
@given(answers=some_of_them, seed=st.integers(0, 99))
@pytest.mark.thorough
def test_every_form_and_order_of_answers_is_equal(answers: Answers, seed: int, album: Path, tmp_path: Path) -> None:
    """With unknown images and without some of the known: what holds of a table holds of every form."""
    found = [figures_and_bounds(album, form(answers, tmp_path)) for form in FORMS]
    rows = as_table(answers, tmp_path)["run"].sample(frac=1, random_state=seed)
    found.append(figures_and_bounds(album, {"run": rows.reset_index(drop=True)}))
    for one in found:
        assert all(one[metric] == pytest.approx(found[0][metric]) for metric in METRICS)


def test_a_service_is_measured_as_its_answers_in_a_file_are(album: Path, tmp_path: Path) -> None:
    """Two photos that the folder has, and then two that it has not, stand before the right one."""
    for before in (PHOTOS[4:6], ["x/1.jpg", "x/2.jpg"]):
        answers = {text: [*before, PHOTOS[n]] for n, text in enumerate(QUERIES)}
        measured = figures(album, as_service(answers, tmp_path))
        assert measured == pytest.approx(figures(album, as_csv(answers, tmp_path)))
        assert measured["hit@1"] == 0 and measured["rr@10"] == pytest.approx(1 / 3)


def test_a_run_that_matches_nothing_is_told_what_the_set_calls_its_images(album: Path) -> None:
    answers = {text: ["x/1.jpg", "x/2.jpg", PHOTOS[0]] for text in QUERIES}
    with pytest.raises(UserError, match=r"use image ids of the set \(such as album/0\d\.jpg\), or count others as"):
        qt.evaluate(album, run=as_table(answers, album)["run"])
    chance = qt.evaluate(album, run=as_table(answers, album)["run"], max_unknown=1, metrics=["hit@1"]).figures
    assert chance["chance"].tolist() == pytest.approx([1 / 10]), "eight photos, and two that came back"


def test_only_the_named_photos_on_demand(album: Path, tmp_path: Path) -> None:
    folder = album.parent.parent
    named = qt.import_set(
        "pairs", folder / "golden.csv", tmp_path / "named", images=folder / "photos", gallery="named"
    ).set
    assert len(named.images) == 4
    assert "images that the files name" in " ".join(named.manifest["known_limitations"])
    answers = {text: [PHOTOS[7], PHOTOS[n]] for n, text in enumerate(QUERIES)}
    found = figures(named.path, as_table(answers, tmp_path))
    assert found["hit@1"] == 0 and found["rr@10"] == 0.5, "the photo of the folder keeps its rank"


def test_padding_of_an_index_is_no_result(album: Path, tmp_path: Path) -> None:
    """FAISS fills up with -1, also before the right one where distances are negated."""
    rows = as_table({text: ["-1", PHOTOS[n]] for n, text in enumerate(QUERIES)}, tmp_path)["run"]
    found = qt.evaluate(album, run=rows, metrics=["hit@1"])
    assert found["hit@1"] == 1 and "padding" in {one.code for one in found.warnings}
    assert "padding" not in {one.code for one in qt.evaluate(album, run=rows[rows["image_id"] != "-1"]).warnings}


def test_an_order_alone_has_no_threshold_and_scores_have_one(album: Path, tmp_path: Path) -> None:
    answers = {text: [PHOTOS[n]] for n, text in enumerate(QUERIES)}
    assert qt.evaluate(album, **as_function(answers, tmp_path)).result.thresholds == {}
    assert "0.9" in qt.evaluate(album, **as_table(answers, tmp_path)).result.thresholds


def test_a_search_that_answers_backwards_is_refused_like_its_file(tmp_path: Path) -> None:
    texts, names = [f"query {n}" for n in range(40)], [f"{n:02}.jpg" for n in range(40)]
    (tmp_path / "photos").mkdir()
    for n, name in enumerate(names):
        (tmp_path / "photos" / name).write_bytes(make_jpeg((6 * n, 250 - 6 * n, 90), (40, 30 + n)))
    rows = "".join(f"{text},{name}\n" for text, name in zip(texts, names, strict=True))
    (tmp_path / "golden.csv").write_text("query,image\n" + rows)
    album = qt.import_set("pairs", tmp_path / "golden.csv", tmp_path / "golden", images=tmp_path / "photos").set.path
    answers = {text: [*names[:n][-5:], *names[n + 1 :][:5], names[n]] for n, text in enumerate(texts)}
    with pytest.raises(UserError, match=r"ranks relevant images last.* make it return the best result first"):
        qt.evaluate(album, **as_function(answers, tmp_path))
    qt.evaluate(album, **as_function({text: names[::-1] for text, names in answers.items()}, tmp_path))


def test_what_a_build_left_out_keeps_its_rank_or_not_as_it_is_said(tmp_path: Path) -> None:
    """A photo that cannot be read is in the ledger of a set of tags, and a search over the folder returns it first."""
    (tmp_path / "photos").mkdir()
    for n, name in enumerate(("a.jpg", "b.jpg", "broken.jpg")):
        data = make_jpeg((80 * n, 200 - 80 * n, 90), (64, 48 + 8 * n))
        (tmp_path / "photos" / name).write_bytes(data[: 30 if name == "broken.jpg" else None])
    (tmp_path / "tags.csv").write_text("file_name,tag\na.jpg,red\nbroken.jpg,red\n")
    definition = qt.Precision(
        name="tagged", annotations=[tmp_path / "tags.csv"], images=tmp_path / "photos", out=tmp_path / "sets",
        searchable={"min_images": 1}, mixes={"levels": 1}, languages=["en"], texts=["word"], render=None,
    )  # fmt: skip
    tagged = qt.build(definition).set
    assert sorted(tagged.images["file_name"]) == ["a.jpg", "b.jpg"]
    run = {"red": {"broken.jpg": 3.0, "never seen.jpg": 2.0, "a.jpg": 1.0}}
    found = {rule: qt.evaluate(tagged.path, run=run, metrics=["rr"], max_unknown=1, outside=rule) for rule in RULES}
    assert {rule: one["rr"] for rule, one in found.items()} == pytest.approx(
        {None: 1 / 2, "condense": 1 / 2, "keep": 1 / 3}
    )
    assert found[None].result.counts["results_left_out"] == 1
    assert found[None].result.counts["left_out_of_the_first_10"] == 1
    assert "condensed" in {one.code for one in found[None].warnings}
    assert "condensed" not in {one.code for one in found["keep"].warnings}
    (unknown,) = [one.detail for one in found[None].warnings if one.code == "unknown_ids"]
    assert unknown.startswith("1 ") and "(such as never seen.jpg)" in unknown


def test_queries_that_wait_are_in_the_bounds_and_in_no_mean() -> None:
    """One of three queries counts, at hit@1 of 1; the others wait, and one of them has judged results alone."""
    run = pd.DataFrame(
        [("a", "x", 1.0), ("b", "x", 2.0), ("b", "y", 1.0), ("c", "x", 1.0)], columns=["query_id", "image_id", "score"]
    )
    qrels = pd.DataFrame([("a", "x", 1), ("b", "x", 0), ("c", "x", 0)], columns=["query_id", "image_id", "relevance"])
    waiting = bound_waiting(run, qrels, ["b", "c"], ["hit@1", "hit@2", "p@2"])
    assert {name: bounds.tolist() for name, bounds in waiting.items()} == {
        "hit@1": [0, 0], "hit@2": [1, 0], "p@2": [0.5, 0]
    }  # fmt: skip
    ranked = rank_run(run[run["query_id"] == "a"], index_qrels(qrels[qrels["query_id"] == "a"]))
    figures = score_run(ranked, ["hit@1", "hit@2"]).figures({}, waiting).set_index("metric")
    assert figures["value"].tolist() == [1, 1]
    assert figures["at_least"].tolist() == pytest.approx([1 / 3, 1 / 3])
    assert figures["at_most"].tolist() == pytest.approx([1 / 3, 2 / 3])
    counts = {"queries_of_set": {"all": 3, "count": 1, "wait": 2, "absent": 0}}
    assert describe_queries(counts, 1) == "3 queries: 1 count, 2 wait for judgments"
    assert describe_queries({"queries_of_set": {"all": 1, "count": 1, "wait": 0, "absent": 0}}, 1) == "1 queries"


def test_a_gate_refuses_runs_that_were_made_on_other_images(tmp_path: Path) -> None:
    versions = []
    for count in (3, 5):
        for n in range(count):
            path = tmp_path / "photos" / f"{n}.jpg"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(make_jpeg((40 * n, 200, 90), (40 + 9 * n, 30)))
        (tmp_path / "golden.csv").write_text("query,image\nred,0.jpg\nblue,1.jpg\n")
        source = tmp_path / "golden.csv", tmp_path / "sets" / "golden"
        versions.append(qt.import_set("pairs", *source, images=tmp_path / "photos").set.path)
    run = {"red": {"0.jpg": 1.0}, "blue": {"1.jpg": 1.0}}
    old, new = (qt.evaluate(path, run=run, name="search", store=True, page=False).folder for path in versions)
    with pytest.raises(UserError, match="was made on v1, whose images differ from those of v2"):
        qt.gate(versions[1], candidate=new, baseline=old, metric=["hit@1"], margin=[0.1])
    assert qt.gate(versions[1], candidate=new, baseline=new, metric=["hit@1"], margin=[0.1]).verdict == "PASS"
