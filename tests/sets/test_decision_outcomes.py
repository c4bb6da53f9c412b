"""For whatever a build turns away there is a way: a rescue, or a word on what to do instead."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders.gallery import image_filters
from builders.generated import row_rules
from builders.precision.families.family_queries import FAMILIES
from builders.recall import caption_cleaning
from querytruth.sets import decision_outcomes as overridable
from querytruth.sets.decision_outcomes import advise_fix, is_overridable
from tests.flows.image_web import EXPECTED_FETCHED, EXPECTED_SCREENED

ROOT = Path(__file__).parents[2]
NO_SET = ("querytruth/dual_encoder/", "querytruth/evaluation/", "querytruth/sets/ledger.py")  # these books are no set's
MADE = {  # the stages and kinds of calls that don't spell them out
    "f'{stage}_replies' 'reply'": [("topics_replies", "reply"), ("objects_replies", "reply")],
    "f'{stage}_rows' 'row'": [("topics_rows", "row"), ("objects_rows", "row")],
    "stage 'image'": [("coverage", "image"), ("gallery", "image")],
    "stage kind": [("labels", "label"), ("parents", "parent")],
    "f'mixes_of_{number}' 'mix'": [("mixes_of_2", "mix"), ("mixes_of_13", "mix")],
    "f'family_{name}' 'question'": [(f"family_{name}", "question") for name in FAMILIES],
    "f'{kind} split' kind": [("image split", "image"), ("query split", "query")],
}


def sources() -> Iterator[Path]:
    for room in ("builders", "flows", "querytruth"):
        for path in sorted((ROOT / room).rglob("*.py")):
            if not str(path.relative_to(ROOT)).startswith(NO_SET) and path.name != "decision_outcomes.py":
                yield path


def booked() -> set[tuple[str, str]]:
    """Stage and kind of everything that a build books."""
    found: set[tuple[str, str]] = set()
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "record_stage":
                if ast.unparse(node.func.value) != "ledger":
                    continue
                stage, kind = node.args[:2]
                if isinstance(stage, ast.Constant) and isinstance(kind, ast.Constant):
                    found.add((str(stage.value), str(kind.value)))
                else:
                    found |= set(MADE[f"{ast.unparse(stage)} {ast.unparse(kind)}"])
    return found


def has_a_way(stage: str, kind: str, bucket: str, reason: str) -> bool:
    """Just one of the two."""
    return is_overridable(stage, kind, bucket, reason) is not bool(advise_fix(stage, kind, bucket, reason))


@pytest.mark.thorough
def test_there_is_a_way_at_every_stage_for_every_reason() -> None:
    stages = booked()
    assert len(stages) > 30 and {("filter", "image"), ("mixes_of_2", "mix"), ("choice", "object")} <= stages
    for stage, kind in sorted(stages):
        assert has_a_way(stage, kind, "rejected", "a_reason_of_tomorrow"), (stage, kind)
        assert has_a_way(stage, kind, "pending", "a_reason_of_tomorrow"), (stage, kind)
        if not is_overridable(stage, kind, "rejected", "a_reason_of_tomorrow"):
            assert has_a_way(stage, kind, "quarantined", "a_reason_of_tomorrow"), (stage, kind)


@pytest.mark.thorough
def test_the_tables_name_no_stage_and_no_reason_that_no_build_writes() -> None:
    stages = {(overridable._generic_stage(stage), kind) for stage, kind in booked()}
    honoured, keys = overridable._OVERRIDABLE, [tuple(key.split("/")) for key in overridable._ADVICE]
    advised, by_reason = {key[:2] for key in keys if len(key) == 2}, [key for key in keys if len(key) == 3]
    assert honoured.keys() | advised | {(stage, kind) for stage, kind, _ in by_reason} <= stages
    assert not [stage for stage, reasons in honoured.items() if reasons is None and stage in advised]
    written = "".join(path.read_text("utf-8") for path in sources())
    reasons = {reason for listed in honoured.values() for reason in listed or ()} | {reason for *_, reason in by_reason}
    assert [reason for reason in sorted(reasons) if f'"{reason}"' not in written] == []


@pytest.mark.parametrize(
    ("stage", "kind", "bucket", "reason", "words"),
    [
        ("filter", "image", "rejected", "too_small", ""),
        ("select", "image", "rejected", "not_selected", ""),
        ("coverage", "image", "rejected", "already_covered", ""),
        ("gallery", "image", "rejected", "already_covered", "select.uncovered_by"),
        ("clean", "caption", "rejected", "refusal", ""),
        ("caption", "caption", "rejected", "no_caption", ""),
        ("caption", "caption", "pending", "server_error", "to retry the failed items"),
        ("ambiguity", "caption", "rejected", "too_many_rivals", ""),
        ("ambiguity", "caption", "rejected", "repeated_query", "another query has the same text"),
        ("scan", "image", "quarantined", "cannot_be_decoded", "fix or replace the file"),
        ("duplicates", "image", "rejected", "near_duplicate", "Duplicates"),
        ("duplicates", "image", "rejected", "exact_duplicate", "nothing is lost"),
        ("queries", "query", "rejected", "url_used_before", ""),
        ("queries", "query", "quarantined", "empty_text", "import again"),
        ("queries", "query", "pending", "too_few_images", "to retry the failed items"),
        ("results", "result", "rejected", "licence_unknown", ""),
        ("images", "result", "rejected", "too_small", ""),
        ("images", "result", "rejected", "not_needed", "collect.keep"),
        ("images", "result", "rejected", "query_dropped", "override that first"),
        ("images", "result", "quarantined", "too_small", "no image could be fetched"),
        ("answers", "query", "quarantined", "too_few_images", "collect.keep"),
        ("answers", "caption", "rejected", "image_outside", "largest set"),
        ("size", "image", "rejected", "outside_of_size", "largest set"),
        ("mixes_of_3", "mix", "rejected", "over_the_cap", "mixes.cap"),
        ("family_count", "question", "rejected", "over_the_cap", "family_rules.cap"),
        ("labels", "label", "rejected", "too_few_images", "searchable.min_images"),
        ("objects_rows", "row", "rejected", "too_similar", "as an edit"),
        ("objects_rows", "row", "rejected", "known", "found already"),
        ("choice", "object", "rejected", "dropped_by_person", "a person dropped it"),
        ("review", "query", "rejected", "dropped_by_person", "on the page of the version before"),
        ("a stage of tomorrow", "image", "rejected", "unheard_of", ""),
    ],
)
def test_what_to_do_is_said_in_a_few_words(stage: str, kind: str, bucket: str, reason: str, words: str) -> None:
    said = advise_fix(stage, kind, bucket, reason)
    assert words in said if words else said == ""
    assert is_overridable(stage, kind, bucket, reason) is (not words and stage != "a stage of tomorrow")


def test_every_reason_that_rules_list_has_a_way() -> None:
    filters = [rule.filter.reason for rule in image_filters.build_filter_rules(min_side=1)]
    listed = [("filter", "image", "rejected", reason) for reason in filters]
    listed += [("clean", "caption", "rejected", reason) for reason in caption_cleaning.CAPTION_REJECTION_REASONS]
    for stage in ("topics_rows", "objects_rows"):
        listed += [(stage, "row", "rejected", reason) for reason in row_rules.ROW_REJECTION_REASONS]
    listed += [("results", "result", *away) for away in EXPECTED_SCREENED.values()]
    listed += [("images", "result", *away) for away in EXPECTED_FETCHED.values()]
    assert len(listed) > 40
    for what in listed:
        assert has_a_way(*what), what
        assert "\n" not in advise_fix(*what) and len(advise_fix(*what)) < 100
