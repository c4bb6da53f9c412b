"""How sure a rival is: what was measured of each candidate, and the one score made of it.

The score of a query and a rival, 0 to 1, is the first of these that can be told:

- **said**: all that the query says is said of the rival's picture, too (`phrases`): 1.
- **alike**: how near the two captions are, or, with picture vectors, the two pictures, whichever is nearer: 0.5 at its
  cut, 1 at the cosine 1, in a straight line; the captions' is 0 where a word that tells apart differs (red for blue).
- with vectors of both kinds in one space, the root of alike times **across**: how near the query is to the rival's
  picture beside its own: 1 where nearer, 0.5 at `margin` farther, 0 at twice that. Both must speak for it: an embedder
  that takes one picture for the other is no proof alone, and queries would be left that it finds easy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from builders.recall.answers import Answers
from builders.recall.neighbours import Members, Rows, Vectors, cosines
from builders.recall.phrases import lacking, tell_apart
from builders.recall.said import Spoken

Floats = NDArray[np.float64]
COLUMNS = ["query_id", "image_id", "rival_query_id", "score", "said", "captions", "pictures", "across", "evidence"]


@dataclass(frozen=True, slots=True)
class RivalRules:
    """`rivals`: how many a query's table lists; `captions`, `pictures`: cosines from which two are near (what that is
    depends on the embedder); `margin`: of a cosine; `at_least`: the score from which a query is ambiguous."""

    rivals: int = 5
    captions: float = 0.9
    pictures: float = 0.9
    margin: float = 0.02
    at_least: float = 0.5


@dataclass(frozen=True, slots=True)
class Sight:
    """Vectors, each normalised, their rows those of the frames: `captions` of queries; `across` of queries, in the
    space of `pictures`, which are of images. None: not given."""

    captions: Vectors | None = None
    across: Vectors | None = None
    pictures: Vectors | None = None


def own_cosines(answers: Answers, across: Vectors, pictures: Vectors) -> Floats:
    """Per query the cosine with the nearest of its own pictures; of a query without one, more than any."""
    own = np.full(len(across), -np.inf)
    np.maximum.at(own, answers.asked, cosines(across, pictures, answers.asked, answers.shown))
    return np.where(np.isinf(own), 2.0, own)


class Measured:
    """Every candidate's cosines, NaN where vectors are missing, and the captions that were compared."""

    def __init__(self, answers: Answers, sight: Sight, query: Rows, answer: Rows) -> None:
        self.query, self.answer = query, answer
        speaker, of_answer = answers.speakers()
        self.place, pair = Members(of_answer, answers.count).of(answer)
        self.caption = speaker[pair]  # per compared caption its query; `place`: its candidate
        self.near = np.full(len(self.caption), np.nan)
        if sight.captions is not None:
            self.near = cosines(sight.captions, sight.captions, query[self.place], self.caption)
        self.captions = _most(self.near, self.place, len(query))
        self.pictures = self.across = np.full(len(query), np.nan)
        if sight.pictures is not None:
            self._look(answers, sight, sight.pictures)

    def _look(self, answers: Answers, sight: Sight, pictures: Vectors) -> None:
        place, image = Members(answers.answer, answers.count).of(self.answer)
        if sight.across is not None:
            own = own_cosines(answers, sight.across, pictures)[self.query]
            near = cosines(sight.across, pictures, self.query[place], image)
            self.across = (_most(near, place, len(self.query)) - own).round(6)
        pair, shown = Members(answers.asked, len(answers.query_ids)).of(self.query[place])
        near = cosines(pictures, pictures, answers.shown[shown], image[pair])
        self.pictures = _most(near, place[pair], len(self.query))


def _most(values: Floats, place: Rows, count: int) -> Floats:
    out = np.full(count, -np.inf)
    np.fmax.at(out, place, values)
    return np.where(np.isinf(out), np.nan, out)


def score_rivals(answers: Answers, spoken: Spoken, measured: Measured, rules: RivalRules) -> pd.DataFrame:
    """A row per candidate, with the columns COLUMNS."""
    missing = [
        lacking(spoken.queries[query], spoken.answers[answer]) if spoken.queries[query] else ["?"]
        for query, answer in zip(measured.query.tolist(), measured.answer.tolist(), strict=True)
    ]
    apart = [tell_apart(words) for words in missing]
    said = np.array([not words for words in missing], dtype=bool)
    score = _score(said, np.array([bool(words) for words in apart], dtype=bool), measured, rules)
    speaks = _speaking(spoken, measured)
    names = answers.image_ids[answers.first_images()] if answers.count else answers.image_ids
    table = pd.DataFrame(
        {
            "query_id": answers.query_ids[measured.query],
            "image_id": names[measured.answer],
            "rival_query_id": pd.array([None if row < 0 else answers.query_ids[row] for row in speaks], dtype="str"),
            "score": score,
            "said": said,
            "captions": measured.captions,
            "pictures": measured.pictures,
            "across": measured.across,
        }
    )
    texts = list(_quoted(answers, spoken, measured, said.tolist(), speaks))
    table["evidence"] = pd.array(_evidence(table, apart, texts), dtype="str")
    return table[COLUMNS]


def _quoted(answers: Answers, spoken: Spoken, measured: Measured, said: list[bool], speaks: list[int]) -> Iterator[str]:
    """Per candidate the text that speaks for it: a caption, or, where all is said only with it, a description."""
    for query, answer, whole, row in zip(measured.query.tolist(), measured.answer.tolist(), said, speaks, strict=True):
        asked, caption = spoken.queries[query], "" if row < 0 else str(answers.texts[row])
        told = not whole or (row >= 0 and not lacking(asked, spoken.queries[row]))
        yield caption if told else spoken.description(asked, answer) or caption


def _score(said: NDArray[np.bool_], apart: NDArray[np.bool_], measured: Measured, rules: RivalRules) -> Floats:
    captions = np.where(apart, 0.0, np.nan_to_num(_ramp(measured.captions, rules.captions)))
    alike = np.maximum(captions, np.nan_to_num(_ramp(measured.pictures, rules.pictures)))
    across = np.clip(1 + measured.across / (2 * rules.margin), 0, 1) if rules.margin else measured.across >= 0
    both = np.sqrt(alike * across)
    score: Floats = np.where(said, 1.0, np.where(np.isnan(measured.across), alike, both)).round(4)
    return score


def _ramp(cosine: Floats, cut: float) -> Floats:
    """0.5 at the cut and 1 at 1."""
    return np.clip(0.5 + 0.5 * (cosine - cut) / max(1 - cut, 1e-6), 0, 1)


def _speaking(spoken: Spoken, measured: Measured) -> list[int]:
    """Per candidate the caption of the rival that says most of what the query says; -1 where it has none."""
    best: list[tuple[int, float, int]] = [(1 << 30, 0.0, -1)] * len(measured.query)
    for place, caption, near in zip(
        measured.place.tolist(), measured.caption.tolist(), np.nan_to_num(measured.near).tolist(), strict=True
    ):
        left = len(lacking(spoken.queries[measured.query[place]], spoken.queries[caption]))
        best[place] = min(best[place], (left, -near, caption))
    return [caption for _, _, caption in best]


def _evidence(table: pd.DataFrame, apart: list[list[str]], texts: list[str]) -> list[str]:
    """In words, for people and for the judgments' column."""
    lines = []
    for row, words, text in zip(table.itertuples(index=False), apart, texts, strict=True):
        parts = ["all of it is said of this picture"] if row.said else []
        parts += [f"captions {row.captions:.3f}"] if row.captions == row.captions and not row.said else []
        parts += ["but not " + " ".join(words)] if words else []
        parts += [f"pictures {row.pictures:.3f}"] if row.pictures == row.pictures else []
        parts += [f"across {row.across:+.3f}"] if row.across == row.across else []
        lines.append(", ".join(parts) + (f": {text}" if text else ""))
    return lines
