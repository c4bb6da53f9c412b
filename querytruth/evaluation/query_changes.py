"""The same query in other spellings, or on changed copies of the images: the truth stays, so the loss is exact.

A kind changes the text of a query by a rule; queries that a rule does not change are excluded. The others are sent to
the system again, and its figures are compared with those of the unchanged queries, pairwise.
"""

import re
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd

from querytruth.backends.steps import current_run
from querytruth.evaluation.encoded_sets import IMAGE_CHANGES
from querytruth.evaluation.judged_sets import JudgedSet, build_evaluation_view, exclude_queries
from querytruth.evaluation.statistics import align_clusters, correct_holm, estimate_interval, find_p_of_difference
from querytruth.evaluation.steps import ScoredSystem, score_system
from querytruth.evaluation.systems import EvaluatedSystem
from querytruth.records import stable_hash

CHANGE_COLUMNS = [
    *("kind", "queries", "before", "after", "difference", "low", "high", "p"),
    *("lost", "overlap", "example", "typed"),
]
_FIRST = 10  # results whose overlap is stated
_FULL_WIDTH = {code: code + 0xFEE0 for code in range(0x21, 0x7F)} | {0x20: 0x3000}
_CHINESE = re.compile("[\u4e00-\u9fff]+")
_PREFIXES = {"zh": "一张照片，内容是", "en": "a photo of "}
LoadSystem = Callable[[JudgedSet, str], EvaluatedSystem]  # of a set and of a change of its images, or ""


def _drop_punctuation(text: str, _language: str) -> str:
    return "".join(letter for letter in text if not unicodedata.category(letter).startswith("P"))


def _drop_accents(text: str, _language: str) -> str:
    parts = unicodedata.normalize("NFD", text)
    return unicodedata.normalize("NFC", "".join(one for one in parts if unicodedata.category(one) != "Mn"))


def _swap_letters(text: str, _language: str) -> str:
    """Swap two letters side by side, at a place that the text's hash chooses: "a dog" may become "a odg"."""
    places = [at for at in range(len(text) - 1) if text[at : at + 2].isalpha() and text[at] != text[at + 1]]
    if not places:
        return text
    at = places[stable_hash("swap", text) % len(places)]
    return text[:at] + text[at + 1] + text[at] + text[at + 2 :]


def _drop_last_word(text: str, language: str) -> str:
    words = text.split()
    return " ".join(words[:-1]) if len(words) > 1 else text[:-2] if language == "zh" and len(text) > 3 else text


@cache
def _load_converter(name: str) -> Any:
    from opencc import OpenCC  # of the extra `chinese`

    return OpenCC(name)


def _spell_chinese(text: str, _language: str) -> str:
    """Write each run of Chinese characters as pinyin without tones: 红色 umbrella becomes hong se umbrella."""
    from pypinyin import lazy_pinyin  # of the extra `chinese`

    spelled = re.sub(rf"\s*({_CHINESE.pattern})\s*", lambda run: " ".join(["", *lazy_pinyin(run[1]), ""]), text)
    return spelled if spelled == text else spelled.strip()


QUERY_CHANGES: dict[str, Callable[[str, str], str]] = {
    "upper case": lambda text, _language: text.upper(),
    "lower case": lambda text, _language: text.lower(),
    "without punctuation": _drop_punctuation,
    "full stop at the end": lambda text, language: text.rstrip(".。") + ("。" if language == "zh" else "."),
    "full width": lambda text, _language: text.translate(_FULL_WIDTH),
    "doubled blanks": lambda text, _language: text.replace(" ", "  "),
    "two letters swapped": _swap_letters,
    "without accents": _drop_accents,
    "“a photo of” before it": lambda text, language: _PREFIXES.get(language, _PREFIXES["en"]) + text,
    "traditional characters": lambda text, _language: _load_converter("s2t").convert(text),
    "simplified characters": lambda text, _language: _load_converter("t2s").convert(text),
    "pinyin": _spell_chinese,
}
CHINESE_CHANGES = ("traditional characters", "simplified characters", "pinyin")
LAST_WORD = "last word of the query ignored"


def change_queries(judged: JudgedSet, kind: str) -> tuple[JudgedSet, frozenset[str]]:
    """Return the set with the texts of its queries changed, and the ids of those that are as they were."""
    assert judged.stored is not None
    change = _drop_last_word if kind == LAST_WORD else QUERY_CHANGES[kind]
    queries = judged.stored.tables.queries
    texts = [change(text, language) for text, language in zip(queries["text"], queries["language"], strict=True)]
    is_same = queries["text"].to_numpy() == np.array(texts, dtype=object)
    tables = replace(judged.stored.tables, queries=queries.assign(text=texts))
    return replace(judged, stored=replace(judged.stored, tables=tables)), frozenset(queries["query_id"][is_same])


def measure_changes(
    judged: JudgedSet, load_system: LoadSystem, scored: ScoredSystem, metric: str, *, encodes_images: bool
) -> pd.DataFrame:
    """Return a row per kind that changes a query (CHANGE_COLUMNS), the largest loss first; where the system
    `encodes_images`, also per kind of IMAGE_CHANGES. `scored`: the system on the unchanged queries; `lost`: queries
    whose figure falls; `overlap`: of the first ten results; `example`: the query that loses most, and how it was
    `typed`; p is corrected for all kinds (Holm)."""
    kinds = [*QUERY_CHANGES]
    if find_spec("opencc") is None or find_spec("pypinyin") is None:
        kinds = [one for one in kinds if one not in CHINESE_CHANGES]
        if judged.stored is not None and judged.stored.tables.queries["text"].str.contains(_CHINESE).any():
            advice = "install querytruth[chinese] to include them"
            current_run().reporter.log(f"queries are not sent in {', '.join(CHINESE_CHANGES)}: {advice}")
    kinds += IMAGE_CHANGES if encodes_images else []
    rows = [_measure_change(judged, load_system, scored, metric, kind) for kind in kinds]
    table = pd.DataFrame([row for row in rows if row], columns=CHANGE_COLUMNS)
    table["p"] = correct_holm(table["p"].to_numpy(dtype=np.float64))
    return table.sort_values("difference", kind="stable", ignore_index=True)


def _measure_change(
    judged: JudgedSet, load_system: LoadSystem, scored: ScoredSystem, metric: str, kind: str
) -> tuple[object, ...]:
    changed, same = (judged, frozenset[str]()) if kind in IMAGE_CHANGES else change_queries(judged, kind)
    view = build_evaluation_view(changed, "text_to_image", [metric], ())
    if same.issuperset(view.query_ids.to_pylist()):
        return ()
    view = exclude_queries(view, same)
    typed = score_system(view, load_system(changed, kind if kind in IMAGE_CHANGES else ""))
    after = typed.result.per_query[metric]
    before = scored.result.per_query[metric].reindex(after.index)
    differences = (after - before).to_numpy()
    clusters = align_clusters(view.spec.clusters, after.index)
    interval = estimate_interval(differences[:, None], clusters=clusters, ends=(-1.0, 1.0))
    means = [float(one) for one in (before.mean(), after.mean(), differences.mean(), interval.low[0], interval.high[0])]
    p = find_p_of_difference(after.to_numpy(), before.to_numpy(), clusters=clusters)
    overlap = _measure_overlap(scored.run, typed.run, after.index)
    worst = after.index[int(np.argmin(differences))]
    tables = [one.stored.tables.queries for one in (judged, changed) if one.stored is not None]
    texts = [str(one.loc[one["query_id"] == worst, "text"].iloc[0]) for one in tables]
    return kind, len(after), *means, p, int((differences < 0).sum()), overlap, *texts


def _measure_overlap(one: pd.DataFrame, other: pd.DataFrame, queries: pd.Index) -> float:
    """Return the mean share of the first results of one run that are among those of the other."""
    first = [
        run.loc[(run["rank"] <= _FIRST) & run["query_id"].isin(queries), ["query_id", "image_id"]].astype("str")
        for run in (one, other)
    ]
    common = first[0].merge(first[1]).groupby("query_id").size().reindex(queries, fill_value=0)
    returned = first[0].groupby("query_id").size().reindex(queries, fill_value=0)
    return float((common / returned.clip(lower=1)).mean())
