"""Each doubtful thing about a set is found, and a clean set has none."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from builders.benchmark_set import Tables
from builders.lint import lint
from builders.records import empty


def clean() -> Tables:
    queries = pd.DataFrame(
        [
            {"query_id": q, "text": t, "language": "en", "style": "word", "level": 1, "labels": [t]}
            for q, t in (("q1", "dog"), ("q2", "cat"))
        ]
    )
    images = (
        empty("images")
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
    return {finding.check: finding.count for finding in lint(tables)}


def test_a_clean_set_has_no_findings() -> None:
    assert lint(clean()) == []


def test_judgments_that_name_what_is_not_there() -> None:
    tables = clean()
    assert checks(replace(tables, images=tables.images[:2]))["dangling_image_id"] == 1
    assert checks(replace(tables, queries=tables.queries[:1]))["dangling_query_id"] == 1


def test_a_query_without_a_right_answer() -> None:
    tables = clean()
    zeros = tables.qrels.assign(relevance=[1, 2, 0])
    assert checks(replace(tables, qrels=zeros)) == {"empty_truth": 1, "unreachable_image": 1}


def test_texts_that_read_the_same() -> None:
    tables = clean()
    found = checks(replace(tables, queries=tables.queries.assign(text=["Dog", " dog"])))
    assert found["repeated_text"] == 2


def test_pictures_that_are_there_twice() -> None:
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


@pytest.mark.parametrize("name", ["my_dog_01.jpg", "DOG.png", "album/dogs 2.jpg"])
def test_file_names_that_give_the_answer_away(name: str) -> None:
    tables = clean()
    named = tables.images.assign(file_name=[name, "hotdogma.jpg", "0003.jpg"])
    assert checks(replace(tables, images=named)) == {"text_in_file_name": 1}
