"""What a change of typing does to a text, and what a search that minds it loses; a run file cannot be asked again."""

from pathlib import Path

import pytest

from querytruth.evaluation import query_changes
from querytruth.evaluation.encoded_sets import IMAGE_CHANGES
from querytruth.evaluation.judged_sets import JudgedSet, build_evaluation_view, load_judged_set
from querytruth.evaluation.program_systems import make_search_system
from querytruth.evaluation.query_changes import QUERY_CHANGES, change_queries, measure_changes
from querytruth.evaluation.steps import score_system
from querytruth.evaluation.systems import EvaluatedSystem
from tests.small_sets import image_id_of, publish_small_set, small_tables

RIGHT = {"a dog, wet": "dog", "沙滩上的狗": "beach", "'cat'\nasleep": "cat", "-1": "dog"}


@pytest.mark.parametrize(
    ("kind", "text", "language", "typed"),
    [
        ("upper case", "a Café", "en", "A CAFÉ"),
        ("lower case", "A Café", "en", "a café"),
        ("without punctuation", "“a dog”, wet!", "en", "a dog wet"),
        ("full stop at the end", "a dog", "en", "a dog."),
        ("full stop at the end", "狗。", "zh", "狗。"),
        ("full width", "a 1", "en", "\uff41\u3000\uff11"),
        ("doubled blanks", "a dog", "en", "a  dog"),
        ("two letters swapped", "ox 11", "en", "xo 11"),
        ("two letters swapped", "aa 11", "en", "aa 11"),
        ("without accents", "Café über", "en", "Cafe uber"),
        ("“a photo of” before it", "狗", "zh", "一张照片，内容是狗"),
        ("traditional characters", "雨伞下的头发", "zh", "雨傘下的頭髮"),
        ("simplified characters", "頭髮", "zh", "头发"),
        ("pinyin", "红色umbrella在海边", "zh", "hong se umbrella zai hai bian"),
        ("pinyin", " a  dog", "en", " a  dog"),
    ],
)
def test_each_kind_of_typing(kind: str, text: str, language: str, typed: str) -> None:
    assert QUERY_CHANGES[kind](text, language) == typed


def test_the_last_word_is_ignored() -> None:
    drop = query_changes._drop_last_word
    expected = ["a wet", "dog", "沙滩上", "狗"]
    assert [drop(*one) for one in (("a wet dog", "en"), ("dog", "en"), ("沙滩上的狗", "zh"), ("狗", "zh"))] == expected


def find_by_text(text: str, _k: int) -> list[str]:
    """Find the right image where the text is as it was written; case does not matter."""
    known = {one.casefold(): name for one, name in RIGHT.items()}
    name = known.get(text.casefold(), "tree")
    return [image_id_of(name), image_id_of("tree")] if name != "tree" else [image_id_of("tree")]


def test_what_a_search_loses_by_typing_is_exact_and_counts_changed_queries_alone(tmp_path: Path) -> None:
    judged = load_judged_set(publish_small_set(tmp_path, small_tables(graded=False)).path)
    system = make_search_system(find_by_text, "exact")
    scored = score_system(build_evaluation_view(judged, "text_to_image", ["hit@1"], ()), system)
    found = measure_changes(judged, lambda *_changed: system, scored, "hit@1", encodes_images=False).set_index("kind")
    assert found.loc["upper case", ["queries", "before", "difference", "lost"]].tolist() == [2, 1.0, 0.0, 0]
    assert found.loc["without punctuation", ["queries", "after", "lost", "overlap"]].tolist() == [3, 0.0, 3, 0.5]
    assert found.loc["doubled blanks", "queries"] == 1 and found.loc["doubled blanks", "typed"] == "a  dog,  wet"
    assert "without accents" not in found.index  # no query has one
    same = change_queries(judged, "doubled blanks")[1]
    assert len(same) == 3


def test_a_system_that_encodes_images_is_measured_on_each_change_of_them(tmp_path: Path) -> None:
    judged = load_judged_set(publish_small_set(tmp_path, small_tables(graded=False)).path)
    system, blind = make_search_system(find_by_text, "exact"), make_search_system(lambda *_: [image_id_of("tree")], "x")
    scored = score_system(build_evaluation_view(judged, "text_to_image", ["hit@1"], ()), system)
    spoilt, *others = IMAGE_CHANGES

    def load(_judged: JudgedSet, change: str) -> EvaluatedSystem:
        return blind if change == spoilt else system

    found = measure_changes(judged, load, scored, "hit@1", encodes_images=True).set_index("kind")
    assert found.loc[[spoilt, *others, "upper case"], "after"].tolist() == [0.0, *[1.0] * len(others), 1.0]
