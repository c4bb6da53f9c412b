"""Each doubtful thing about a set is found, and a clean set has none."""

import time
from dataclasses import replace

import pandas as pd
import pytest

from builders.lint import find_leaking_file_names, finding_lines, lint_tables
from querytruth.errors import LintFinding
from querytruth.records import empty_frame
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.ledger import Ledger, rejection_rows


def clean() -> Tables:
    queries = pd.DataFrame(
        [
            {"query_id": q, "text": t, "language": "en", "style": "word", "level": 1, "labels": [t]}
            for q, t in (("q1", "dog"), ("q2", "cat"))
        ]
    )
    images = (
        empty_frame("images")
        .reindex(range(3))
        .assign(
            image_id=["a", "b", "c"],
            width=1,
            height=1,
            sha256=["1", "2", "3"],
            file_name=["0001.jpg", "0002.jpg", "0003.jpg"],
        )
    )
    qrels = pd.DataFrame(
        {
            "query_id": ["q1", "q1", "q2"],
            "image_id": ["a", "b", "c"],
            "relevance": [1, 2, 1],
            "judged_by": "detector",
            "evidence": None,
        }
    ).astype({"query_id": "category", "image_id": "category"})
    return Tables(queries, images, qrels)


def checks(tables: Tables) -> dict[str, int]:
    return {finding.check: finding.count for finding in lint_tables(tables)}


def test_a_clean_set_has_no_findings() -> None:
    assert lint_tables(clean()) == []


def test_judgments_that_name_what_is_not_there() -> None:
    tables = clean()
    assert checks(replace(tables, images=tables.images[:2]))["dangling_image_id"] == 1
    assert checks(replace(tables, queries=tables.queries[:1]))["dangling_query_id"] == 1


def judged_twice(grades: list[int], **query: object) -> Tables:
    """Two queries that ask the same; the first found images a and b, the second a (and b, if it has a grade)."""
    tables = clean()
    queries = tables.queries.assign(**query)
    rows = [("q1", "a", 2), ("q1", "b", 1), *(("q2", name, grade) for name, grade in zip("ab", grades, strict=False))]
    qrels = pd.DataFrame(rows, columns=["query_id", "image_id", "relevance"]).assign(judged_by="human", evidence=None)
    return replace(tables, queries=queries, qrels=qrels.astype({"query_id": "category", "image_id": "category"}))


@pytest.mark.parametrize(("grades", "count"), [([2, 1], 0), ([2], 1), ([1, 1], 1), ([2, 0], 1)])
def test_two_queries_for_one_label_with_different_truths(grades: list[int], count: int) -> None:
    findings = {one.check: one for one in lint_tables(judged_twice(grades, labels=[["dog"], ["dog"]]))}
    assert ("contradicting_truth" in findings) == bool(count)
    if count:
        found = findings["contradicting_truth"]
        assert (found.severity, found.count, found.examples) == ("error", 1, ("dog = cat",))


@pytest.mark.parametrize(("grades", "count"), [([2, 1], 0), ([2], 0), ([2, 0], 1)])
def test_two_captions_of_one_image_that_give_another_two_grades(grades: list[int], count: int) -> None:
    """That a caption fits one image more than the other caption does is no contradiction."""
    captions = judged_twice(grades, labels=None, source_image_id="a", text=["a big dog", "a dog on the sofa"])
    assert checks(captions).get("contradicting_truth", 0) == count


def test_a_query_without_a_right_answer() -> None:
    tables = clean()
    zeros = tables.qrels.assign(relevance=[1, 2, 0])
    assert checks(replace(tables, qrels=zeros)) == {"empty_truth": 1, "unreachable_image": 1}


def test_images_that_are_there_twice() -> None:
    tables = clean()
    assert checks(replace(tables, images=tables.images.assign(sha256=["1", "1", "3"])))["same_bytes"] == 2
    twins = tables.images.assign(duplicate_group=["g", None, "g"])
    assert checks(replace(tables, images=twins))["twin_not_in_truth"] == 2


def test_different_queries_with_the_very_same_truth() -> None:
    tables = clean()
    rows = pd.DataFrame(
        {
            "query_id": ["q1", "q2", "q2", "q1"],
            "image_id": ["a", "b", "a", "b"],
            "relevance": 1,
            "judged_by": "detector",
            "evidence": None,
        }
    ).astype({"query_id": "category", "image_id": "category"})
    assert checks(replace(tables, qrels=rows))["shared_truth"] == 1
    wordings = tables.queries.assign(labels=[["Dog"], ["Dog"]])
    assert "shared_truth" not in checks(replace(tables, qrels=rows, queries=wordings)), (
        "two wordings of one question share by design"
    )


def test_file_names_that_give_the_answer_away() -> None:
    tables = clean()
    named = tables.images.assign(file_name=["album/dogs 2.jpg", "hotdogma.jpg", "0003.jpg"])
    assert checks(replace(tables, images=named)) == {"text_in_file_name": 1}


def captions(*texts: str, **more: str) -> Tables:
    """A caption for each of so many images; `more` are captions of the first, by language."""
    asked = [(f"q{n}", text, "zh", f"img{n}") for n, text in enumerate(texts)]
    asked += [(f"r{language}", text, language, "img0") for language, text in more.items()]
    queries = pd.DataFrame(asked, columns=["query_id", "text", "language", "source_image_id"])
    ids = [f"img{n}" for n in range(len(texts))]
    images = empty_frame("images").reindex(range(len(ids))).assign(image_id=ids, width=1, height=1, file_name="0.jpg")
    qrels = pd.DataFrame({"query_id": queries["query_id"], "image_id": queries["source_image_id"], "relevance": 1})
    qrels = qrels.assign(judged_by="model", evidence=None).astype({"query_id": "category", "image_id": "category"})
    return Tables(queries.assign(style="caption", level=1, labels=None, topic=None), images, qrels)


def ambiguous(tables: Tables) -> LintFinding | None:
    return next((finding for finding in lint_tables(tables) if finding.check == "ambiguous_text"), None)


def also_right(tables: Tables, *pairs: tuple[str, str, int]) -> Tables:
    more = pd.DataFrame(pairs, columns=["query_id", "image_id", "relevance"]).assign(judged_by="caption", evidence=None)
    both = pd.concat([tables.qrels.astype("object"), more], ignore_index=True)
    kinds = {"query_id": "category", "image_id": "category", "relevance": "int8"}
    return replace(tables, qrels=both.astype(kinds))


def test_a_caption_of_which_all_is_said_of_another_image_too() -> None:
    tables = captions("沙滩上有一只狗", "沙滩上有一只棕色的狗和一把伞", "桌子上有一个苹果")
    found = ambiguous(tables)
    assert found is not None and (found.severity, found.count) == ("warning", 1)
    assert found.examples == ("q0 沙滩上有一只狗 — img1: 沙滩上有一只棕色的狗和一把伞",)
    english = ambiguous(captions("a dog on the beach", "on the beach, there are a brown dog and a man", "an apple"))
    assert english is not None and english.count == 1


@pytest.mark.parametrize("relevance", [0, 1])
def test_a_caption_whose_rival_is_judged_is_not_ambiguous(relevance: int) -> None:
    tables = captions("沙滩上有一只狗", "沙滩上有一只棕色的狗和一把伞")
    assert ambiguous(also_right(tables, ("q0", "img1", relevance))) is None


def test_captions_of_one_image_and_of_its_near_duplicates_are_no_rivals() -> None:
    assert ambiguous(captions("沙滩上有一只狗", "桌子上有一个苹果", zh="沙滩上有一只狗和一把伞")) is None
    tables = captions("沙滩上有一只狗", "沙滩上有一只狗和一把伞")
    assert ambiguous(replace(tables, images=tables.images.assign(duplicate_group="g"))) is None


def test_queries_with_labels_are_not_asked_whether_their_texts_are_ambiguous() -> None:
    tables = captions("狗", "狗和猫")
    labelled = tables.queries.assign(labels=[["Dog"], ["Dog", "Cat"]])
    assert ambiguous(tables) is not None and ambiguous(replace(tables, queries=labelled)) is None


def test_a_dangling_judgment_does_not_stop_the_other_checks() -> None:
    tables = also_right(captions("沙滩上有一只狗", "沙滩上有一只狗和一把伞"), ("q0", "gone", 1), ("gone", "img1", 1))
    found = checks(tables)
    assert found["dangling_image_id"] == found["dangling_query_id"] == found["ambiguous_text"] == 1


def test_wordings_of_one_image_share_its_truth_by_design() -> None:
    assert "shared_truth" not in checks(captions("一只狗", "一把伞", en="a dog"))
    merged = also_right(captions("沙滩上的一只狗", "一只狗在沙滩上"), ("q0", "img1", 1), ("q1", "img0", 1))
    assert checks(merged)["shared_truth"] == 1


def test_pairs_that_wait_for_a_person() -> None:
    tables = captions("一只狗", "一把伞")
    waiting = pd.DataFrame({"query_id": ["q0", "q1"], "image_id": ["img1", "img0"], "score": 0.5, "evidence": "像"})
    suspected = replace(tables, candidate_judgments=waiting)
    (found,) = lint_tables(suspected)
    assert (found.check, found.severity, found.count) == ("candidate_judgments_open", "note", 2)
    assert found.examples == ("q0 一只狗 — img1: 像", "q1 一把伞 — img0: 像")
    assert checks(also_right(suspected, ("q1", "img0", 0)))["candidate_judgments_open"] == 1


def test_ten_thousand_captions_are_checked_in_seconds() -> None:
    things = ["dog", "cat", "boat", "car", "bird", "cup", "chair", "lamp", "kite", "ball"]
    texts = [
        f"a {things[n % 10]} and a {things[n // 10 % 10]} number{n // 2} by the {things[n // 100 % 10]}"
        for n in range(10_000)
    ]
    tables = captions(*texts)
    tables = replace(
        tables, images=tables.images.assign(file_name=[f"a photo of a dog {n}.jpg" for n in range(10_000)])
    )
    start = time.process_time()
    lint_tables(tables)
    assert time.process_time() - start < 10  # one or two; the bound is for a slow machine


def test_tags_that_were_left_in_a_text() -> None:
    tables = clean()
    found = lint_tables(replace(tables, queries=tables.queries.assign(text=["狗:n 奔跑:v", "cat"])))
    assert [(finding.check, finding.examples) for finding in found] == [
        ("text_residue", ("q1 狗:n 奔跑:v — tags of words",))
    ]


def test_what_an_import_could_not_use_is_told_beside_what_it_could() -> None:
    """A ledger of a build of our own has other stages: the same words in it are no fault of a source."""
    ledger = Ledger()
    away = [("unknown_image", "q9 gone"), ("unknown_query", "q8 a"), ("contradicting_judgment", "q1 a")]
    items, reasons = [item for _, item in away], [reason for reason, _ in away]
    ledger.record_stage("judgments", "judgment", 6, 3, rejection_rows(items, "rejected", reasons))
    found = checks(replace(clean(), ledger=ledger.rows()))
    assert found == {"unreachable_judgment": 2, "contradicting_judgment": 1}
    ours = ledger.rows().assign(stage="judge")
    assert checks(replace(clean(), ledger=ours)) == {}


def test_the_card_tells_what_bears_on_figures_and_not_what_is_only_worth_knowing() -> None:
    tables = clean()
    queries = tables.queries.assign(text=["Dog", " dog"])
    told = finding_lines(
        lint_tables(replace(tables, queries=queries, qrels=tables.qrels[tables.qrels["image_id"] != "b"]))
    )
    assert told == ["2 queries have the same text as another one (lint: repeated_text)."]


def answered(counts: dict[str, int], queries: int) -> Tables:
    """A set of texts without labels; image by image, for how many of the queries it is right, from the first on."""
    names = [f"q{n:03}" for n in range(queries)]
    texts = [f"text {n} of a kind {n * 7}" for n in range(queries)]
    table = pd.DataFrame({"query_id": names, "text": texts, "language": "en", "style": "word", "level": 1})
    pairs = [(name, image) for image, count in counts.items() for name in names[:count]]
    first = clean().images.iloc[[0] * len(counts)].reset_index(drop=True)
    images = first.assign(image_id=list(counts), sha256=list(counts), file_name=list(counts))
    qrels = pd.DataFrame(pairs, columns=["query_id", "image_id"]).assign(relevance=1, judged_by="x", evidence=None)
    qrels = qrels.astype({"query_id": "category", "image_id": "category"})
    return replace(clean(), queries=table.assign(labels=None), images=images, qrels=qrels)


def test_an_image_that_is_right_for_nearly_everything() -> None:
    """In any set, an imported one, too: a card that hosts send for images that are gone."""
    usual = {f"image {n}": 1 for n in range(30)}
    (found,) = [one for one in lint_tables(answered(usual | {"gone": 18}, 20)) if one.check == "implausible_answer"]
    assert found.severity == "warning" and found.examples == ("gone (relevant to 18 of 20 queries)",)
    assert "implausible_answer" in checks(answered(usual | {"gone": 25}, 400)), "few of many, and far more than others"
    assert "implausible_answer" not in checks(answered(usual | {"popular": 3}, 20))
    assert "implausible_answer" not in checks(answered({f"image {n}": 5 for n in range(4)}, 20)), "five captions each"
    labelled = answered(usual | {"crowd": 18}, 20)
    labelled = replace(labelled, queries=labelled.queries.assign(labels=[[text] for text in labelled.queries["text"]]))
    assert "implausible_answer" not in checks(labelled), "its labels say why"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("dog", "my_dog_01.jpg"),
        ("dog", "DOGS.png"),
        ("A dog on the beach.", "2024/a-dog-on-the-beach (3).jpg"),
        ("T-shirt", "t_shirt.jpg"),
        ("狗", "狗001.jpg"),
        ("三只狗", "海边的三只狗.jpg"),
        ("穿T恤的人", "穿T恤的人2.png"),
        ("Straße", "strasse.jpg"),
    ],
)
def test_a_name_that_holds_the_text(text: str, name: str) -> None:
    assert find_leaking_file_names([text, "nothing of it"], ["0001.jpg", name]) == [name]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("dog", "hotdogma.jpg"),
        ("a dog", "a-brown-dog.jpg"),
        ("cat", "cattle.jpg"),
        ("tv", "tv.jpg"),
        ("狗", "dog.jpg"),
        ("三只狗", "三只猫.jpg"),
        ("12", "12.jpg"),
        ("", ".jpg"),
        ("...", "....jpg"),
        ("a dog on the beach that runs", "a dog.jpg"),
    ],
)
def test_a_name_that_does_not(text: str, name: str) -> None:
    assert find_leaking_file_names([text], [name]) == []
