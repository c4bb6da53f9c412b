"""What may become a query: what looks private or commands a reader is kept out, and ordinary texts are not."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest

from querytruth.records import empty_frame
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.text_sieve import PRIVATE_KINDS, find_private_kind, find_text_fault, sieve_tables

# A kind and a text a line. Most were written before the patterns; those that no pattern finds stay in the list.
PRIVATE_TEXTS = Path(__file__).with_name("private_texts.txt").read_text("utf-8").splitlines()
ORDINARY_QUERIES = Path(__file__).with_name("ordinary_queries.txt").read_text("utf-8").splitlines()
CAPTIONS = Path(__file__).parents[3] / "shared" / "data" / "captions"


def test_nineteen_of_twenty_private_texts_have_a_reason() -> None:
    texts = [line.split(" ", 1)[1] for line in PRIVATE_TEXTS]
    passed = [text for text in texts if find_private_kind(text) is None]
    assert len(texts) >= 77
    assert len(passed) <= len(texts) / 20, passed


@pytest.mark.parametrize("kind", PRIVATE_KINDS)
def test_most_texts_of_a_kind_have_its_own_reason(kind: str) -> None:
    texts = [line.split(" ", 1)[1] for line in PRIVATE_TEXTS if line.startswith(f"{kind} ")]
    assert texts
    assert sum(find_private_kind(text) == kind for text in texts) >= len(texts) / 2


def test_ordinary_queries_with_numbers_and_signs_have_none() -> None:
    assert [text for text in ORDINARY_QUERIES if find_private_kind(text)] == []


@pytest.mark.skipif(not CAPTIONS.is_dir(), reason="needs ../shared/data/captions")
def test_at_most_one_real_caption_in_five_hundred_is_kept_out() -> None:
    coco = json.loads((CAPTIONS / "coco_captions_val2017.json").read_text("utf-8"))["annotations"]
    texts = [one["caption"] for one in coco[::10]]
    for name in ("flickr8k_test_zh_human_translation.txt", "flickr8k_test_zh_written.txt"):
        lines = (CAPTIONS / name).read_text("utf-8").splitlines()[::4]
        texts += [re.split(r"[\t ]", line, maxsplit=1)[1] for line in lines]
    assert len(texts) >= 5000
    alarms = [text for text in texts if find_text_fault(text)]
    assert len(alarms) <= len(texts) / 500, alarms


@pytest.mark.parametrize(
    ("text", "fault"),
    [("a cat\x00", "control_characters"), ("cat \u202egnp.exe", "control_characters"), ("x" * 4001, "too_long"),
     ("two lines\nand a\ttab", None), ("\u0627\u0644\u200f", None), ("a cat", None)],
)  # fmt: skip
def test_a_text_is_of_bounded_length_and_turns_nothing_round(text: str, fault: str | None) -> None:
    assert find_text_fault(text) == fault


def test_a_kind_that_a_definition_leaves_out_is_let_through() -> None:
    assert find_private_kind("part 123456789", ["email"]) is None


def make_tables() -> Tables:
    queries = pd.DataFrame(
        {
            "query_id": ["q1", "q2", "q3", "q4", "q5"],
            "text": ["a dog", "call 555-867-5309", "red cups", "a stall", "a boat"],
            "language": "en",
            "style": "caption",
            "level": 1,
            "labels": [None, None, ["cup", "jo@firma.example"], None, None],
            "topic": [None, None, None, "password: 12gh8", None],
            "source_id": ["flickr-1007129816.jpg#0", "2", "3", "4", "mo@post.example"],
        }
    )
    images = pd.DataFrame({"image_id": ["i1"], "width": 1, "height": 1, "creator": ["jo@firma.example"]})
    qrels = pd.DataFrame({"query_id": queries["query_id"], "image_id": "i1", "relevance": 1, "judged_by": "import"})
    return Tables(queries, images, qrels, query_aliases=empty_frame("query_aliases"))


def test_a_query_goes_with_all_that_a_set_says_of_it() -> None:
    sieved, rejections, let_through = sieve_tables(make_tables(), PRIVATE_KINDS, ["q2"])
    assert sieved.queries["query_id"].tolist() == ["q1", "q2", "q5"]
    assert sieved.qrels["query_id"].tolist() == ["q1", "q2", "q5"]
    assert dict(zip(rejections["item"], rejections["reason"], strict=True)) == {"q3": "email", "q4": "secret"}
    assert let_through == ["q2"]
    assert sieved.queries["source_id"].fillna("").tolist() == ["flickr-1007129816.jpg#0", "2", ""]
    assert sieved.images["creator"].isna().all()
