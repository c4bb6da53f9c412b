"""Captions that fit several pictures: found by what is said and by what models see, and settled by policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from backends.chat import ChatRequest, Message, Reply, ShownPicture
from backends.embedders import char_ngrams, clip, sentence_transformer
from builders.recall.ambiguity import Settled, settle, shares, to_ask_again
from builders.recall.captions import clean
from builders.recall.rescued_captions import WantedCaptions
from builders.recall.rival_scores import RivalRules, Sight
from builders.recall.rivals import Rivals, find_rivals
from flows.captions.captioning import Talk, caption_model, cleaning_rules, limits_of, load_prompt
from flows.definitions import RecallDefinition
from flows.pictures.picture_embedding import PictureVectors, picture_vectors
from flows.steps import step

_EXAMPLES = 24  # ambiguous queries on the page
Vectors = NDArray[np.float32]


@dataclass(slots=True)
class Looks:
    """How captions and pictures are compared, by embedders that are loaded once; texts are encoded once."""

    definition: RecallDefinition
    text: Any = None
    near: float = 0.9
    pictures: PictureVectors | None = None
    _known: dict[str, dict[str, Vectors]] = field(default_factory=dict)

    def sight(self, queries: pd.DataFrame) -> Sight:
        """The vectors of queries and pictures."""
        captions = self._encoded("text", self.text, queries["text"]) if self.text is not None else None
        if self.pictures is None:
            return Sight(captions)
        across = self._encoded("image", self.pictures.embedder, queries["text"])
        return Sight(captions, across, self.pictures.vectors)

    def _encoded(self, kind: str, embedder: Any, texts: pd.Series) -> Vectors:
        known = self._known.setdefault(kind, {})
        new = sorted(set(texts) - known.keys())
        known.update(zip(new, embedder.encode_texts(new), strict=True))
        rows: Vectors = np.array([known[text] for text in texts], dtype=np.float32)
        return rows.reshape(len(texts), embedder.dimensions)

    def models(self) -> list[dict[str, Any]]:
        """The embedders, as the manifest names them."""
        found = []
        if self.text is not None:
            found.append(_named("caption rivals", self.text.fingerprint))
        if self.pictures is not None:
            found.append(_named("picture rivals", self.pictures.embedder.fingerprint))
        return found


def _named(role: str, fingerprint: str) -> dict[str, Any]:
    name, _, revision = fingerprint.partition("@")
    return {"role": role, "name": name, "revision": revision, "parameters": {}}


@step("load embedders")
def load_looks(definition: RecallDefinition, queries: pd.DataFrame, images: pd.DataFrame, places: list[str]) -> Looks:
    """The embedders that the definition names, the pictures' vectors at once. A text embedder that does not know the
    captions' language is refused."""
    rules = definition.ambiguity
    looks = Looks(definition)
    if rules.text_embedder == "char_ngrams":
        looks.text, looks.near = char_ngrams.load(), char_ngrams.ALIKE
    elif rules.text_embedder is not None:
        looks.text, looks.near = sentence_transformer.load(rules.text_embedder), sentence_transformer.ALIKE
        looks.text.check_language(queries["text"])
    if rules.image_embedder is not None:
        embedder = clip.load(rules.image_embedder)
        looks.pictures = picture_vectors(embedder, images["image_id"], places, definition.out / definition.name)
    return looks


@dataclass(slots=True)
class Found:
    """Queries, their truth and their rivals, as they stand."""

    queries: pd.DataFrame
    qrels: pd.DataFrame
    rivals: Rivals


@dataclass(frozen=True, slots=True)
class Around:
    """What a query's rivals are looked for in: the gallery, its duplicate groups, and what else is said of pictures."""

    images: pd.DataFrame
    duplicates: pd.DataFrame
    descriptions: pd.DataFrame | None
    looks: Looks

    @step("find rivals")
    def find(self, queries: pd.DataFrame, qrels: pd.DataFrame) -> Found:
        """The rivals of every query."""
        wanted = self.looks.definition.ambiguity
        near = self.looks.near if wanted.captions is None else wanted.captions
        rules = RivalRules(wanted.rivals, near, wanted.pictures, wanted.margin, wanted.at_least)
        sight = self.looks.sight(queries)
        found = find_rivals(
            queries, qrels, self.images, rules, sight, descriptions=self.descriptions, duplicates=self.duplicates
        )
        return Found(queries, qrels, found)


def settle_rivals(
    queries: pd.DataFrame,
    qrels: pd.DataFrame,
    around: Around,
    pictures: Mapping[str, ShownPicture],
    talk: Talk,
    people: WantedCaptions,
) -> tuple[Settled, dict[str, Any]]:
    """The tables after the policy, and what the manifest says of it. What `people` wrote is not asked about again."""
    wanted = around.looks.definition.ambiguity
    first = found = around.find(queries, qrels)
    rounds: list[dict[str, int]] = []
    if wanted.policy == "recaption":
        for _ in range(wanted.rounds):
            if not found.rivals.ambiguous.difference(people.texts):
                break
            found, told = ask_again(found, around, pictures, talk, people)
            rounds.append(told)
    final = wanted.then if wanted.policy == "recaption" else wanted.policy
    settled = settle(
        found.queries,
        found.qrels,
        around.images,
        found.rivals,
        final,
        duplicates=around.duplicates,
        wanted=people.kept,
    )
    before = shares(queries, first.rivals.ambiguous)
    notes = {
        **settled.figures,
        "policy": wanted.policy,
        "then": wanted.then if wanted.policy == "recaption" else None,
        "before": before,
        "rounds": rounds,
        "rivals": len(first.rivals.certain()),
        "seen": _seen(around),
        "examples": list(_examples(first, found, settled, final, people)),
    }
    return settled, notes


@step("ask again")
def ask_again(
    found: Found, around: Around, pictures: Mapping[str, ShownPicture], talk: Talk, people: WantedCaptions
) -> tuple[Found, dict[str, int]]:
    """One round of recaption: the model sees the picture, its caption and its rivals', and says what tells it apart."""
    again = to_ask_again(found.queries, found.rivals, around.descriptions, settled=people.texts)
    of_query = found.queries.set_index("query_id")
    model, (rules, _) = caption_model(around.looks.definition), cleaning_rules()
    requests, templates = [], []
    for row in again.itertuples(index=False):
        prompt = load_prompt(f"{of_query.at[row.query_id, 'language']}/recaption")
        text = prompt.fill(caption=row.text, rivals="\n".join(row.rivals))
        picture = pictures[of_query.at[row.query_id, "source_image_id"]]
        asks = (Message("user", text, (picture,)),)
        requests.append(ChatRequest(asks, limits_of(prompt.name), language=prompt.language))
        templates.append(prompt)
    answers = talk.ask("captions asked again", model, requests)
    new: dict[str, str] = {}
    for query, prompt, answer in zip(again["query_id"], templates, answers, strict=True):
        if isinstance(answer, Reply):
            text = clean(answer.text, answer.finish_reason, prompt.language, rules, prompt.text).text
            new |= {query: text} if text else {}
    texts = [new.get(query, text) for query, text in zip(found.queries["query_id"], found.queries["text"], strict=True)]
    after = around.find(found.queries.assign(text=pd.array(texts, dtype="str")), found.qrels)
    told = {"asked": len(again), "answered": len(new), "ambiguous_after": len(after.rivals.ambiguous)}
    return after, told


def _seen(around: Around) -> dict[str, str | None]:
    names = {model["role"]: model["name"] for model in around.looks.models()}
    described = around.looks.definition.descriptions
    return {
        "captions": names.get("caption rivals"),
        "pictures": names.get("picture rivals"),
        "descriptions": None if described is None else described.model or around.looks.definition.captions.model,
    }


def _examples(first: Found, found: Found, settled: Settled, policy: str, people: WantedCaptions) -> Any:
    """Ambiguous queries with their rivals and what became of them, the surest rivals first."""
    before = first.queries.set_index("query_id")
    now = dict(zip(found.queries["query_id"], found.queries["text"], strict=True))
    kept = set(settled.queries["query_id"])
    own = dict(zip(first.queries["query_id"], first.queries["source_image_id"], strict=True))
    sure = first.rivals.certain()
    for query, rows in list(sure.groupby("query_id"))[:_EXAMPLES]:
        asked_again = now[query] != before.at[query, "text"]
        outcome = {"merge": "merged", "review": "marked"}.get(policy, "kept") if query in kept else "dropped"
        if query in kept and query not in found.rivals.ambiguous:
            outcome = "asked_again" if asked_again else "kept"
        elif query in people.kept and (policy == "drop" or (policy == "merge" and query in found.rivals.crowded)):
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
                    "text": None if pd.isna(row.rival_query_id) else before.at[row.rival_query_id, "text"],
                    "score": round(float(row.score), 4),
                    "evidence": row.evidence,
                }
                for row in rows.itertuples(index=False)
            ],
        }
