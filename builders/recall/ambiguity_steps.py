"""Finds captions that fit several images, by words and by embedders, and resolves them by the definition's policy."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import pandas as pd

from builders.judged_pairs import JudgedPairs, judge_pairs
from builders.recall import ambiguity, caption_cleaning, captions, confusable_images, similarity_models
from builders.recall.caption_rules import CaptionOverrides, load_cleaning_rules, load_recaption_prompt
from querytruth.backends.models.chat import ChatImage, ChatRequest, Message, Reply
from querytruth.backends.steps import step
from querytruth.questions import ChatSession
from querytruth.sets.manifest_notes import Ambiguity

_EXAMPLES = 24  # ambiguous queries on the page


@dataclass(slots=True)
class QueryConfusions:
    """Queries, their truth and their confusable images at one point of the resolution."""

    queries: pd.DataFrame
    qrels: pd.DataFrame
    confusable: confusable_images.ConfusableImages


@dataclass(frozen=True, slots=True)
class ConfusionContext:
    """The search space of confusable images: the gallery, its duplicate groups, and descriptions of images."""

    images: pd.DataFrame
    duplicates: pd.DataFrame
    descriptions: pd.DataFrame | None
    models: similarity_models.SimilarityModels

    @step("find rivals")
    def find_confusable_images(self, queries: pd.DataFrame, qrels: pd.DataFrame) -> QueryConfusions:
        """Return the confusable images of every query."""
        confusable = confusable_images.find_confusable_images(
            queries,
            qrels,
            self.images,
            self.models.choose_rules(),
            self.models.encode_queries(queries),
            self.models.image_vectors,
            descriptions=self.descriptions,
            duplicates=self.duplicates,
        )
        return QueryConfusions(queries, qrels, confusable)


def resolve_caption_ambiguity(
    queries: pd.DataFrame,
    qrels: pd.DataFrame,
    context: ConfusionContext,
    images: Mapping[str, ChatImage],
    chat_session: ChatSession,
    human_captions: CaptionOverrides,
) -> tuple[ambiguity.ResolvedAmbiguity, Ambiguity, JudgedPairs | None]:
    """Return the tables after the policy, the notes for the manifest, and the replies of a judge. Captions in
    `human_captions` are not requested again."""
    wanted = context.models.definition.ambiguity
    initial = current_state = context.find_confusable_images(queries, qrels)
    rounds: list[dict[str, int]] = []
    if wanted.policy == "recaption":
        for _ in range(wanted.rounds):
            if not current_state.confusable.ambiguous_query_ids.difference(human_captions.texts):
                break
            current_state, round_counts = recaption_ambiguous_queries(
                current_state, context, images, chat_session, human_captions
            )
            rounds.append(round_counts)
    final = wanted.then if wanted.policy == "recaption" else wanted.policy
    before, judged = ambiguity.count_ambiguous(queries, initial.confusable.ambiguous_query_ids), None
    if (rule := wanted.pair_judge) is not None:
        definition, proposed = context.models.definition, initial.confusable.candidates
        judged = judge_pairs(definition, rule, proposed, queries, images, chat_session)
        initial = current_state = QueryConfusions(
            queries, qrels, ambiguity.see_through_judge(initial.confusable, judged)
        )
        final = "merge" if judged.is_calibrated else "review"
    resolved = ambiguity.resolve_ambiguity(
        current_state.queries,
        current_state.qrels,
        context.images,
        current_state.confusable,
        final,
        duplicates=context.duplicates,
        override_ids=human_captions.effective_ids,
    )
    notes = {
        **resolved.figures,
        "policy": wanted.policy,
        "then": wanted.then if wanted.policy == "recaption" else None,
        "before": before,
        "rounds": rounds,
        "rivals": len(initial.confusable.table),
        "candidates": len(resolved.ambiguous_pairs),
        "measured": similarity_models.describe_lines(queries, initial.confusable),
        "seen": _describe_models(context),
        "examples": list(_examples(initial, current_state, resolved, final, human_captions)),
    }
    if judged is not None:
        notes["judge"] = judged.figures
    return resolved, cast(Ambiguity, notes), judged


@step("ask again")
def recaption_ambiguous_queries(
    confusions: QueryConfusions,
    context: ConfusionContext,
    images: Mapping[str, ChatImage],
    chat_session: ChatSession,
    human_captions: CaptionOverrides,
) -> tuple[QueryConfusions, dict[str, int]]:
    """Run one round of recaption: the model gets the image, its caption and those of its confusable images, and writes
    a caption that distinguishes it."""
    again = ambiguity.build_recaption_requests(
        confusions.queries, confusions.confusable, context.descriptions, final_query_ids=human_captions.texts
    )
    of_query = confusions.queries.set_index("query_id")
    definition = context.models.definition
    model, longest = captions.load_caption_model(definition), captions.find_max_lengths(definition.captions)
    rules, _ = load_cleaning_rules(definition.cleaning_files)
    own_files, languages = definition.prompt_files, definition.captions.languages
    prompts = {language: load_recaption_prompt(language, own_files) for language in languages}
    requests, templates = [], []
    for row in again.itertuples(index=False):
        prompt = prompts[of_query.at[row.query_id, "language"]]
        text = prompt.fill(caption=row.text, rivals="\n".join(row.rivals))
        image = images[of_query.at[row.query_id, "source_image_id"]]
        asks = (Message("user", text, (image,)),)
        limits = captions.limit_caption_tokens(captions.choose_parameters(prompt.name), definition.captions)
        requests.append(ChatRequest(asks, limits, language=prompt.language))
        templates.append(prompt)
    answers = chat_session.ask("captions asked again", model, requests)
    new: dict[str, str] = {}
    for query, prompt, answer in zip(again["query_id"], templates, answers, strict=True):
        if isinstance(answer, Reply):
            asked = prompt.language, rules, prompt.text, longest.get(prompt.language)
            text = caption_cleaning.clean_caption(answer.text, answer.finish_reason, *asked).text
            new |= {query: text} if text else {}
    texts = confusions.queries["query_id"].map(new).fillna(confusions.queries["text"]).astype("str")
    after = context.find_confusable_images(confusions.queries.assign(text=texts), confusions.qrels)
    counts = {"asked": len(again), "answered": len(new), "ambiguous_after": len(after.confusable.ambiguous_query_ids)}
    return after, counts


def _describe_models(context: ConfusionContext) -> dict[str, str | None]:
    models, described = context.models, context.models.definition.descriptions
    return {
        "captions": models.text_embedder.name,
        "pictures": models.image_embedder.name if models.image_embedder else None,
        "descriptions": None if described is None else described.model or context.models.definition.captions.model,
    }


def _examples(
    initial: QueryConfusions,
    final_state: QueryConfusions,
    resolved: ambiguity.ResolvedAmbiguity,
    policy: str,
    human_captions: CaptionOverrides,
) -> Any:
    """Yield ambiguous queries with their confusable images and their outcome, the highest scores first."""
    before = initial.queries.set_index("query_id")
    now = dict(zip(final_state.queries["query_id"], final_state.queries["text"], strict=True))
    kept = set(resolved.queries["query_id"])
    own = dict(zip(initial.queries["query_id"], initial.queries["source_image_id"], strict=True))
    certain = initial.confusable.table
    for query, rows in list(certain.groupby("query_id"))[:_EXAMPLES]:
        asked_again = now[query] != before.at[query, "text"]
        outcome = {"merge": "merged", "review": "marked"}.get(policy, "kept") if query in kept else "dropped"
        if query in kept and query not in final_state.confusable.ambiguous_query_ids:
            outcome = "asked_again" if asked_again else "kept"
        elif query in human_captions.effective_ids and (
            policy == "drop" or (policy == "merge" and query in final_state.confusable.crowded_query_ids)
        ):
            outcome = "rescued"
        yield {
            "query_id": query,
            "text": before.at[query, "text"],
            "language": before.at[query, "language"],
            "image_id": own[query],
            "new_text": now[query] if asked_again else None,
            "outcome": outcome,
            "rivals": [
                {
                    "image_id": row.image_id,
                    "text": None if pd.isna(row.confusable_query_id) else before.at[row.confusable_query_id, "text"],
                    "score": round(float(row.score), 4),
                    "evidence": row.evidence,
                }
                for row in rows.itertuples(index=False)
            ],
        }
