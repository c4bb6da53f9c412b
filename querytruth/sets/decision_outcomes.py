"""The outcome of people's decisions in a build, and which rejections a person can override."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from querytruth.sets.decision_agreement import DecisionConflict
from querytruth.sets.decision_records import ImagePairDecision, Override, SetDecision, latest_by_target
from querytruth.sets.manifest import Decisions, StaleDecision

# By stage and kind of the ledger, the reasons that an override lifts; None: all of them.
_OVERRIDABLE: dict[tuple[str, str], frozenset[str] | None] = {
    ("filter", "image"): None,
    ("select", "image"): frozenset({"not_selected"}),
    ("caption", "caption"): None,
    ("clean", "caption"): None,
    ("ambiguity", "caption"): frozenset({"ambiguous", "too_many_rivals"}),
    ("search", "query"): frozenset({"too_few_results", "results_not_reported"}),
    ("batches", "query"): frozenset({"too_few_images"}),
    ("queries", "query"): frozenset({"too_few_images", "url_used_before", "image_used_before"}),
    ("results", "result"): frozenset(
        {"advertisement", "too_small", "too_elongated", "licence_unknown", "licence_not_allowed"}
    ),
    ("images", "result"): frozenset({"too_small", "too_elongated", "placeholder"}),
}


@dataclass(frozen=True, slots=True)
class DecisionOutcome:
    """Decisions that were applied now or in an earlier version, those that are stale (with the reason), and those that
    fit, but are superseded by a later decision on their target. `conflicts`: differing decisions on equivalent queries;
    `shared_count`: number of judgments that got a decision on an equivalent query."""

    applied: Sequence[SetDecision] = ()
    stale: Sequence[tuple[SetDecision, str]] = ()
    earlier: Sequence[SetDecision] = ()
    superseded: Sequence[SetDecision] = ()
    conflicts: Sequence[DecisionConflict] = ()
    shared_count: int = 0

    def __add__(self, other: DecisionOutcome) -> DecisionOutcome:
        return DecisionOutcome(
            [*self.applied, *other.applied],
            [*self.stale, *other.stale],
            [*self.earlier, *other.earlier],
            [*self.superseded, *other.superseded],
            [*self.conflicts, *other.conflicts],
            self.shared_count + other.shared_count,
        )

    @property
    def in_effect(self) -> list[str]:
        """The sorted ids of all that fit, superseded ones too: a later decision may refer to a text that one of them
        gave."""
        return sorted({decision.decision_id for decision in (*self.applied, *self.earlier, *self.superseded)})

    def as_record(self) -> Decisions:
        """Returns the manifest's `decisions`; `conflicts` only where there are some."""
        stale = [
            cast(StaleDecision, {"decision": decision.decision_id, **decision.about, "why": reason})
            for decision, reason in self.stale
        ]
        record: Decisions = {"in_effect": self.in_effect, "stale": sorted(stale, key=lambda row: row["decision"])}
        if self.conflicts:
            record["conflicts"] = [conflict.as_record() for conflict in self.conflicts]
        return record


def carry_over(
    log: Sequence[ImagePairDecision | Override], record: Mapping[str, Any]
) -> tuple[DecisionOutcome, set[str]]:
    """Returns the outcome of decisions on images and rejected items in a published version, and the ids of those that
    wait for the next build: new ones, and ones undone since. `record`: the manifest's `decisions`."""
    reasons = {row["decision"]: row["why"] for row in record["stale"]}
    in_effect = {*record["in_effect"]}
    published = {decision.decision_id: decision for decision in log if decision.decision_id in in_effect}
    latest = {decision.decision_id: decision for decision in latest_by_target(log).values()}
    stale = {name: reasons[name] for name in latest if name in reasons and name not in published}
    outcome = DecisionOutcome(stale=[(latest[name], why) for name, why in stale.items()], earlier=[*published.values()])
    return outcome, (latest.keys() ^ published.keys()) - stale.keys()


def is_overridable(stage: str, kind: str, bucket: str, reason: str) -> bool:
    """Whether an override makes the next build accept an item that was rejected at that stage for that reason."""
    overridable = _OVERRIDABLE.get((stage, kind), frozenset())
    return bucket == "rejected" and (overridable is None or reason in overridable)


_FIX_IMAGE = "fix or replace the file, then build again"
_FIX_SOURCE = "fix the files that were imported, then import again"
_SAME_BYTES = "nothing is lost: the other image is the same to the byte"
_IN_THE_POOL = "nothing is lost: it was found already"
_LARGEST_SET = "decide in the largest set, of which this one is a part"
_PAGE_BEFORE = "say otherwise on the page of the version before (querytruth review NAME/v1), then build again"
_SITE_SAYS_NO = "its site does not want it fetched: the images after it stand in for it"
_LABEL_RULES = "a rule of the definition rejects it: see searchable.min_images, searchable.count and area_ratio"

# What to do, by stage and kind; below it by reason, where the advice differs.
_ADVICE: dict[tuple[str, str], str] = {
    ("list", "image"): "fix the name or the list that names it, then build again",
    ("scan", "image"): _FIX_IMAGE,
    ("duplicates", "image"): "say in Duplicates that the two are not the same image",
    ("select", "image"): "raise select.count, then build again",
    ("log", "line"): "nothing is asked of it: fix the line where it is a question, then build again",
    ("questions", "line"): "nothing is lost: its question stands once, with all lines that ask it counted",
    ("draw", "query"): "raise sample.count, then build again",
    ("render", "image"): _FIX_IMAGE,
    ("name", "image"): "give the file a name in UTF-8, then build again",
    ("ambiguity", "caption"): "nothing is lost: another query reads the same and has the same right images",
    ("judge", "pair"): "a person decides it: judge it in the review page, then build again",
    ("sure", "query"): "a person decides on its images: judge them in the review page, then build again",
    ("size", "image"): _LARGEST_SET,
    ("answers", "caption"): _LARGEST_SET,
    ("review", "query"): f"a person dropped it: {_PAGE_BEFORE}",
    ("images", "image"): "fix or replace the file, or what the annotations say of it, then build again",
    ("boxes", "box"): "fix the annotations, then build again",
    ("labels", "label"): _LABEL_RULES,
    ("detections", "detection"): "fix the detector's results, then build again",
    ("spellings", "label"): "nothing is lost: it counts as the other spelling of the same name",
    ("parents", "parent"): _LABEL_RULES,
    ("mixes_of", "mix"): "a rule of the definition rejects it: see mixes.min_images and mixes.cap",
    (
        "reworded",
        "query",
    ): "only its phrasings are lost: build again with --retry-failures, or name another model",
    ("phrasings", "phrasing"): "nothing is lost: the query it was made of stays, with its other phrasings",
    ("family", "question"): "a rule of the definition rejects it: see family_rules.min_images and family_rules.cap",
    ("attributes", "attribute"): "a rule of the definition leaves it out: see attributes.allow and attributes.exclude",
    ("queries", "query"): _FIX_SOURCE,
    ("imported_images", "image"): _FIX_SOURCE,
    ("judgments", "judgment"): _FIX_SOURCE,
    ("truth", "query"): _FIX_SOURCE,
    ("replies", "reply"): "raise the stage's rounds to ask more often, or name another model",
    ("rows", "row"): "write it into a row of the stage's table as an edit, or add it to the samples",
    ("choice", "object"): "a person dropped it: take that back in the table of the objects, then collect again",
    ("search", "query"): "the image search gives no answer to it: reword it in the table of the objects",
    ("results", "result"): "nothing lies there: the results after it stand in for it",
    ("batches", "query"): "lower collect.keep, or raise collect.first, then build again",
    ("images", "result"): "no image could be had there: the results after it stand in for it",
    ("answers", "query"): "images of it could not be rendered: lower collect.keep, then build again",
    ("image split", "image"): "decide in the set that the training took this part of",
    ("query split", "query"): "decide in the set that the training took this part of",
}
_ADVICE_BY_REASON: dict[tuple[str, str, str], str] = {
    ("list", "image", "listed_twice"): "nothing is lost: it is listed twice, and counts once",
    ("duplicates", "image", "exact_duplicate"): _SAME_BYTES,
    ("review", "query", "no_relevant_left"): f"people left it no right image: {_PAGE_BEFORE}",
    ("images", "image", "same_bytes"): _SAME_BYTES,
    ("images", "image", "listed_in_another_file"): "nothing is lost: another of the annotation files lists it, too",
    ("images", "image", "image_missing"): "put the file where the annotations say, then build again",
    ("boxes", "box", "image_not_accepted"): "its image was not accepted: see the stage images",
    ("boxes", "box", "crowd"): "a rule of the definition rejects it: see boxes.crowd",
    ("boxes", "box", "fake"): "a rule of the definition rejects it: see boxes.fake",
    ("detections", "detection", "below_score"): "a rule of the definition rejects it: see detections.at_least",
    ("detections", "detection", "label_annotated"): "nothing is lost: the annotations have this label in the image",
    ("detections", "detection", "image_not_accepted"): "its image was not accepted: see the stage images",
    ("labels", "label", "no_images"): "no image bears it: annotate some, then build again",
    ("parents", "parent", "no_images"): "no image bears it: annotate some, then build again",
    ("imported_images", "image", "same_bytes"): _SAME_BYTES,
    ("rows", "row", "known"): _IN_THE_POOL,
    ("rows", "row", "repeated"): _IN_THE_POOL,
    ("choice", "object", "repeated"): "nothing is lost: people gave another object the same words",
    ("results", "result", "repeated_url"): "nothing is lost: the query has it at a better rank",
    ("images", "result", "not_needed"): "the images before it were enough: raise collect.keep to have more",
    ("images", "result", "query_dropped"): "its query was rejected: rescue that",
    ("images", "result", "near_duplicate"): "the query has the other one, and a further image in its place",
    ("images", "result", "exact_duplicate"): _SAME_BYTES,
    ("images", "result", "forbidden_by_robots"): _SITE_SAYS_NO,
    ("images", "result", "forbidden_by_robots_tag"): _SITE_SAYS_NO,
}


def advise_fix(stage: str, kind: str, bucket: str, reason: str) -> str:
    """Returns what to do about an item that cannot be overridden; "" where it can be, or the reason is unknown."""
    if bucket == "pending":
        return "run the same command again: what failed is asked anew"
    if is_overridable(stage, kind, bucket, reason):
        return ""
    place = _generic_stage(stage), kind
    return _ADVICE_BY_REASON.get((*place, reason)) or _ADVICE.get(place, "")


def _generic_stage(stage: str) -> str:
    """mixes_of_2, mixes_of_3 … are one stage here, so are topics_rows and objects_rows, and all families."""
    if stage.startswith("family_"):
        return "family"
    return stage.rstrip("0123456789").rstrip("_").removeprefix("topics_").removeprefix("objects_")
