"""A judge decides pairs that a build proposes: what captions leave open, what a detector saw, what a search returned.

Its scores are calibrated on people's answers to pairs of the same set. A pair counts as relevant from a probability on;
the others wait for people, as candidate judgments. Without enough answers none counts. A person's answer comes before
the judge's.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from builders.gallery.render_steps import load_shown_images
from builders.generated.definition import GeneratedDefinition
from builders.precision.definition import PrecisionDefinition
from builders.recall.definition import RecallDefinition
from querytruth.array_types import FloatArray
from querytruth.audit.answers import read_judged_pairs
from querytruth.audit.definition import PairJudgeOptions
from querytruth.audit.judge import JudgeQuestions, choose_form
from querytruth.audit.judge_reliability import describe_reliability, fit_curve
from querytruth.backends.models.chat import ChatImage, ChatModel, load_chat_model
from querytruth.backends.steps import current_run, step
from querytruth.definitions import SetDefinition
from querytruth.formats.set_card import describe_judge
from querytruth.questions import ChatSession, require_a_reply
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.decision_application import merge_judgments
from querytruth.sets.ledger import Ledger, rejection_rows
from querytruth.sets.manifest_notes import JudgeFigures
from querytruth.sets.query_texts import list_meanings

PAIR = ["query_id", "image_id"]
_FITS, _SHOWS = "the caption fits the image", "the image shows what is asked for"  # of a caption, of another query
_UNCALIBRATED, _UNDECIDED, _NO_SCORE = "judge_not_calibrated", "judge_not_sure", "judge_gave_no_score"
_LIMITATION = "judgments come from a model that was calibrated on people's answers: some of them are wrong."
AskingBuild = RecallDefinition | PrecisionDefinition | GeneratedDefinition


@dataclass(frozen=True, slots=True)
class JudgedPairs:
    """Pairs as a judge sees them. `pairs`: query_id, image_id, `chance` that people find it relevant (NaN: not known),
    `is_sure`, `is_answered` by people, and `says`, the judge's words; `waiting`: ledger rows of those that are
    not sure; `figures`: for the manifest."""

    pairs: pd.DataFrame
    waiting: pd.DataFrame
    figures: JudgeFigures

    @property
    def is_calibrated(self) -> bool:
        """Return whether people answered enough to believe the judge."""
        return self.figures["reliability"] is not None

    def record(self, ledger: Ledger) -> None:
        """Record the stage `judge`, in which every pair is sure or waits."""
        ledger.record_stage("judge", "pair", self.figures["asked"], self.figures["merged"], self.waiting)

    def apply_to(self, tables: Tables) -> Tables:
        """Return the tables with the candidates of which the judge is sure as judgments; the others wait, with their
        probabilities. Each candidate is one of the pairs."""
        candidates = tables.candidate_judgments
        seen = candidates[PAIR].astype("str").merge(self.pairs, how="left", on=PAIR)
        words = [
            f"{says} ({own})" if says else own for says, own in zip(seen["says"], candidates["evidence"], strict=True)
        ]
        is_sure = seen["is_sure"].to_numpy(dtype=bool)
        sure = seen.loc[is_sure, PAIR].assign(
            relevance=np.int8(1), judged_by="judge", evidence=np.array(words, dtype=object)[is_sure]
        )
        chances = seen["chance"].fillna(candidates["score"].reset_index(drop=True)).to_numpy(dtype=np.float32)
        waiting = candidates.assign(score=chances, evidence=words)[~is_sure].reset_index(drop=True)
        qrels = merge_judgments(tables.qrels, sure).sort_values(PAIR, ignore_index=True) if len(sure) else tables.qrels
        return replace(tables, qrels=qrels, candidate_judgments=waiting)

    def limitations(self) -> list[str]:
        """Return the notes of a set whose truth has pairs that the judge decided."""
        merged = self.figures["merged"]
        return [f"{merged:,} {_LIMITATION}"] if merged else []


def find_pair_judge(definition: SetDefinition) -> PairJudgeOptions | None:
    """Return the judge of a definition's pairs, None without one."""
    if isinstance(definition, RecallDefinition):
        return definition.ambiguity.pair_judge
    return definition.judge if isinstance(definition, PrecisionDefinition | GeneratedDefinition) else None


def load_pair_judge(rule: PairJudgeOptions) -> ChatModel:
    """Return the judge that a definition names."""
    return load_chat_model(rule.model, **rule.options)


@step("ask judge")
def judge_pairs(
    definition: AskingBuild,
    rule: PairJudgeOptions,
    proposed: pd.DataFrame,
    queries: pd.DataFrame,
    images: Mapping[str, ChatImage],
    session: ChatSession,
) -> JudgedPairs:
    """Ask the judge about every proposed pair (query_id, image_id), and decide those of which it is sure after
    calibration on people's answers on earlier versions. Each reply is stored before it is read; of queries that ask for
    the same, one is asked. Raises UserError if the judge gives no answers."""
    judge, asked_as = load_pair_judge(rule), choose_asked_queries(queries)
    grades = {1: _FITS if isinstance(definition, RecallDefinition) else _SHOWS}
    questions = JudgeQuestions(
        queries[queries["query_id"].isin(asked_as.values())], grades, choose_form(rule), rule.samples
    )
    spread = pd.DataFrame({"query_id": proposed["query_id"].map(asked_as), "image_id": proposed["image_id"]})
    asked = spread.drop_duplicates(ignore_index=True)
    requests = questions.build_all((query, images[image]) for query, image in asked.itertuples(index=False))
    replies = session.ask("judge", judge, requests)
    found = questions.read_scores(replies)
    if requests and not any(score is not None for score in found):
        require_a_reply("ask judge", judge.identity.name, replies)
    scores = np.array([np.nan if score is None else score for score in found], dtype=np.float64)
    texts = dict(zip(queries["query_id"], queries["text"], strict=True))
    answers = read_judged_pairs(definition.out / definition.name, texts)
    of_asked = {(asked_as[query], image): grade > 0 for (query, image), grade in answers.items()}
    name = judge.identity.name + (f" ({rule.samples} samples a pair)" if rule.samples else "")
    decided = decide_pairs(asked, scores, of_asked, name, rule.at_least)
    render = definition.render and definition.render.model_dump(mode="json")
    current_run().reporter.log(describe_judge(decided.figures))
    decided.figures["record"] = {**questions.describe_judge(judge, render)}
    seen = spread.merge(decided.pairs, how="left", on=PAIR)
    return replace(decided, pairs=seen.assign(query_id=proposed["query_id"].to_numpy(dtype=object)))


def judge_candidates(definition: AskingBuild, tables: Tables, folder: Path | None, session: ChatSession) -> JudgedPairs:
    """Ask the definition's judge about the candidates of a set, whose images are rendered in `folder`."""
    rule, candidates = find_pair_judge(definition), tables.candidate_judgments
    assert rule is not None, "the definition has a judge"
    shown = load_shown_images(tables.images[tables.images["image_id"].isin(candidates["image_id"])], folder)
    by_id = {one.image_id: one for one in shown}
    return judge_pairs(definition, rule, candidates, tables.queries, by_id, session)


def choose_asked_queries(queries: pd.DataFrame) -> dict[str, str]:
    """Return by query the one that the judge is asked in its place: of queries for the same labels the longest that a
    template wrote, in English if it can be, so that all of them have one truth."""
    styles, texts = queries["style"] == "llm", queries["text"].str.len()
    order = pd.DataFrame({"llm": styles, "other": queries["language"] != "en", "short": -texts}, index=queries.index)
    ranked = queries["query_id"].loc[order.assign(query_id=queries["query_id"]).sort_values([*order, "query_id"]).index]
    meanings = dict(zip(queries["query_id"], list_meanings(queries), strict=True))
    first: dict[tuple[str, ...], str] = {}
    for query in ranked:
        first.setdefault(meanings[query], query)
    return {query: query if one[0] == "caption" else first[one] for query, one in meanings.items()}


def decide_pairs(
    asked: pd.DataFrame, scores: FloatArray, answers: Mapping[tuple[str, str], bool], name: str, at_least: float
) -> JudgedPairs:
    """Return the pairs (query_id, image_id) with the probability that people find each relevant, by the judge's scores
    (NaN without one), calibrated on people's `answers`. A pair is sure from `at_least` on; with fewer than 30 answers,
    or if these are all the same, no pair is sure."""
    keys = list(asked[PAIR].itertuples(index=False, name=None))
    relevant = np.array([np.nan if key not in answers else float(answers[key]) for key in keys], dtype=np.float64)
    is_scored = ~np.isnan(scores)
    is_known = is_scored & ~np.isnan(relevant)
    known = scores[is_known], relevant[is_known]
    reliability = describe_reliability(*known, asked["query_id"].to_numpy()[is_known].tolist())
    chances = np.full(len(asked), np.nan)
    if reliability is not None:
        chances[is_scored] = fit_curve(*known, scores[is_scored])
    is_sure = chances >= at_least
    says = np.where(is_scored, [f"{name}: {score:.4g}" for score in scores], "")
    says = np.where(np.isnan(chances), says, [f"{name}: probability {chance:.2f}" for chance in chances])
    reason = np.where(is_scored, _UNCALIBRATED if reliability is None else _UNDECIDED, _NO_SCORE)
    wait = ~is_sure
    waiting = rejection_rows(
        pd.Series([f"{query} {image}" for query, image in keys], dtype=object)[wait],
        np.where(is_scored, "quarantined", "pending")[wait], reason[wait], item_id=asked["query_id"][wait],
        measure="probability", value=chances[wait], threshold=at_least, image_id=asked["image_id"][wait],
        detail=says[wait],
    )  # fmt: skip
    figures: JudgeFigures = {
        "name": name,
        "asked": len(asked),
        "without_score": int((~is_scored).sum()),
        "answers": int(is_known.sum()),
        "at_least": at_least,
        "merged": int(is_sure.sum()),
        "waiting": int(wait.sum()),
        "reliability": reliability,
    }
    return JudgedPairs(
        asked[PAIR].assign(chance=chances, is_sure=is_sure, is_answered=~np.isnan(relevant), says=says),
        waiting,
        figures,
    )
