"""A whole search log: which lines ask the same question, how often each is asked, and which questions are sampled.

Memory grows with the number of different texts, and by a few bytes per line. The text of a line that is not a query, or
that looks private, does not leave this file.

Questions are sampled by frequency. Each stratum (head, torso and tail) holds about a third of all searches. Within one,
queries are sampled without replacement and with equal chances; a value per query, divided by its inclusion probability,
estimates the whole log (Horvitz and Thompson, "A Generalization of Sampling Without Replacement from a Finite
Universe", 1952).
"""

from array import array
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import pyarrow as pa

from builders.queries import log_texts
from builders.queries.log_files import LogLine
from querytruth.array_types import AnyArray, FloatArray
from querytruth.backends.files.column_profile import find_number_form
from querytruth.backends.files.text_formats import detect_language
from querytruth.records import content_id, stable_hash
from querytruth.sets.ledger import Ledger, rejection_rows
from querytruth.sets.query_texts import is_total
from querytruth.sets.text_sieve import PRIVATE_KINDS, find_private_kind, normalise_query

_MALFORMED = ("not_utf8", "unreadable_line", "wrong_count", "not_a_text")
_QUARANTINED = [*PRIVATE_KINDS, *_MALFORMED]
_FEWEST_SUMMED = 5  # rows beside one that is their sum
_LONGEST_LANGUAGE = 16  # characters, such as zh-Hans-CN
_LONGEST_NAME = 120  # characters of an id or a topic
STRATA = ("head", "torso", "tail")


@dataclass(slots=True)
class SearchLog:
    """The lines that were read. `spellings`: the different texts of the log, with the other data of the first line of
    each; `codes`: the spelling of each line, or -1 and below: its problem; `counts`: for each line its index in the
    different `count_texts`; `ids`: the ids of all lines in a row, in UTF-8; each ends at its position in `id_ends`."""

    quarantine: Collection[str]
    spellings: dict[str, int] = field(default_factory=dict)
    details: list[tuple[str, str, str]] = field(default_factory=list)  # id, language, topic
    problems: dict[str, int] = field(default_factory=dict)
    numbers: "array[int]" = field(default_factory=lambda: array("q"))
    codes: "array[int]" = field(default_factory=lambda: array("i"))
    count_texts: dict[str, int] = field(default_factory=dict)
    counts: "array[int]" = field(default_factory=lambda: array("i"))
    ids: bytearray = field(default_factory=bytearray)
    id_ends: "array[int]" = field(default_factory=lambda: array("q", [0]))

    def read(self, lines: Iterable[LogLine]) -> None:
        """Add the lines."""
        for line in lines:
            problem = line.problem or ("" if line.text.strip() else "empty_text")
            if problem:
                code = -1 - self.problems.setdefault(problem, len(self.problems))
            elif (known := self.spellings.get(line.text)) is not None:
                code = known
            else:
                code = self.spellings[line.text] = len(self.spellings)
                self.details.append((line.id, line.language, line.topic))
            self.numbers.append(line.number)
            self.codes.append(code)
            self.counts.append(self.count_texts.setdefault(line.count_text, len(self.count_texts)))
            if code >= 0 and len(line.id) <= _LONGEST_NAME:
                self.ids += line.id.encode()
            self.id_ends.append(len(self.ids))

    def read_counts(self, log: str, delimiter: str) -> FloatArray:
        """Return the searches of each line, by the format of all counts; a line with an invalid count has a problem.
        Raises UserError if the counts have two formats."""
        form = find_number_form("read log", log, self.count_texts, delimiter, is_whole=True)
        values = np.array([1.0 if text == "" else form.read(text) or 0.0 for text in self.count_texts])
        searches: FloatArray = values[np.frombuffer(self.counts, np.int32)] if self.counts else np.zeros(0)
        for place in np.flatnonzero(searches < 1):
            if self.codes[place] >= 0:
                self.codes[place] = -1 - self.problems.setdefault("wrong_count", len(self.problems))
        return searches

    def list_malformed(self) -> Iterator[tuple[str, str]]:
        """Yield reason and line of unreadable lines; for an invalid count, also its text."""
        texts = list(self.count_texts)
        for reason in set(_MALFORMED) & set(self.problems):
            for place in np.flatnonzero(np.frombuffer(self.codes, np.int32) == -1 - self.problems[reason]):
                shown = f": {texts[self.counts[place]][:8]!r}" if reason == "wrong_count" else ""
                yield reason, f"line {self.numbers[place]}{shown}"

    def join_questions(self, searches: FloatArray, ledger: Ledger) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return the questions (query_id, text, language, topic, source_id, searches, and `item`: their first line),
        and the ids of all their lines (query_id, source_id); records where each line went. `searches`: of each line."""
        keys = dict[str, int]()
        texts, reasons = list[str](), dict[str, int]()
        question_of, reason_of = array("i"), array("i")
        checked = self._check_all(searches)
        for text, reason, key in checked:
            texts.append(text)
            reason_of.append(reasons.setdefault(reason, len(reasons)) if reason else -1)
            question_of.append(-1 if reason else keys.setdefault(key, len(keys)))
        codes = np.frombuffer(self.codes, np.int32) if self.codes else np.zeros(0, np.int32)
        items = self._name_lines()
        is_text = codes >= 0
        line_reasons = np.full(len(codes), "", dtype=object)
        problems, names = np.array([*self.problems, ""], object), np.array([*reasons, ""], object)
        line_reasons[~is_text] = problems[-1 - codes[~is_text]]
        line_reasons[is_text] = names[np.array(reason_of, np.int32)[codes[is_text]]]
        is_query = line_reasons == ""
        _record_lines(items, line_reasons, ledger)
        lines = pd.DataFrame({"item": items, "code": codes, "searches": searches})[is_query]
        lines["question"] = np.frombuffer(question_of, np.int32)[lines["code"].to_numpy()] if len(lines) else 0
        first = lines.drop_duplicates("question").set_index("question")
        ids = np.array([content_id("q", "own", key) for key in keys], object)
        _record_joined(lines, first, ids, ledger)
        # The most frequent spelling is shown; of equally frequent ones the first.
        by_spelling = lines.groupby(["question", "code"], sort=True)["searches"].sum().reset_index("code")
        shown = by_spelling.sort_values("searches", ascending=False, kind="stable")
        shown = shown[~shown.index.duplicated()].sort_index()["code"]
        rows = [self._describe(code, texts[code]) for code in shown]
        frame = pd.DataFrame(rows, columns=["text", "source_id", "language", "topic"], dtype="object")
        searches = lines.groupby("question", sort=True)["searches"].sum().to_numpy(np.float64)
        questions = frame.assign(query_id=ids, searches=searches, item=first.sort_index()["item"].to_numpy())
        return questions, self._list_ids(lines["question"], ids)

    def _list_ids(self, question_of: pd.Series, query_ids: AnyArray) -> pd.DataFrame:
        """Return the different ids of the lines of each question. The texts stay in Arrow: a log has a million."""
        ends, data = pa.py_buffer(self.id_ends), pa.py_buffer(bytes(self.ids))
        texts = pa.LargeStringArray.from_buffers(len(self.codes), ends, data)
        pairs = pd.DataFrame(
            {
                "query_id": pd.Categorical.from_codes(question_of.to_numpy(), pd.Index(query_ids, dtype="str")),
                "source_id": pd.Series(texts.take(pa.array(question_of.index.to_numpy())), dtype="str"),
            }
        )
        return pairs[(pairs["source_id"] != "").to_numpy()].drop_duplicates(ignore_index=True)

    def _check_all(self, searches: FloatArray) -> list[tuple[str, str, str]]:
        """Return of each spelling the normalised text, or the reason why it goes no further; and the key of its
        question."""
        checked = [self._check(spelling) for spelling in self.spellings]
        codes = np.frombuffer(self.codes, np.int32) if self.codes else np.zeros(0, np.int32)
        asked = np.bincount(codes[codes >= 0], searches[codes >= 0], len(checked))
        rest = [n for n, (_, reason, _) in enumerate(checked) if not reason and asked[n]]
        of_text = dict[str, float]()
        for n in rest:
            of_text[checked[n][0]] = of_text.get(checked[n][0], 0.0) + asked[n]
        unfinished = log_texts.find_unfinished(of_text)
        outcomes = {n: "unfinished_input" for n in rest if checked[n][0] in unfinished}
        named = [n for n in rest if is_total(checked[n][0])]
        of_queries = sum(asked[n] for n in rest if n not in named)
        totals = [n for n in named if len(rest) > 1 and asked[n] >= of_queries]
        if not totals and len(rest) > _FEWEST_SUMMED:  # a word that is not known, above or below what it sums up
            totals = [n for n in (rest[0], rest[-1]) if 2 * asked[n] == of_queries]
        outcomes |= dict.fromkeys(totals, "total_row")
        outcomes |= {
            n: "wrong_count" for n, (_, reason, _) in enumerate(checked) if not reason and not asked[n]
        }  # no line
        return [("", outcomes[n], "") if n in outcomes else one for n, one in enumerate(checked)]

    def _check(self, spelling: str) -> tuple[str, str, str]:
        text = normalise_query(spelling)
        reason = find_private_kind(text, self.quarantine) or ""
        key = "" if reason else log_texts.build_question_key(text)
        reason = reason or log_texts.find_absurdity(text) or ("" if key else "no_content")
        return ("", reason, "") if reason else (text, "", key)

    def _describe(self, code: int, text: str) -> tuple[str, str | None, str, str | None]:
        """Return the text with its id, language and topic; an id or a topic that looks private is left out."""
        source_id, language, topic = self.details[code]
        language = language.lower() if len(language) <= _LONGEST_LANGUAGE and language.isascii() else ""
        if not language.replace("-", "").isalpha():
            language = detect_language(text)
        names = [one if _is_public_name(one) else None for one in (source_id, topic)]
        return text, names[0], language, names[1]

    def _name_lines(self) -> AnyArray:
        """Return a name per line; zeros before the number keep the lines in order."""
        width = len(str(self.numbers[-1])) if self.numbers else 1
        return np.array([f"line {number:0{width}}" for number in self.numbers], dtype=object)


def _is_public_name(name: str) -> bool:
    return bool(name) and len(name) <= _LONGEST_NAME and name.isprintable() and not find_private_kind(name)


def list_aliases(ids: pd.DataFrame, queries: pd.DataFrame) -> pd.DataFrame:
    """Return the ids of lines (query_id, source_id) that mean a query of the table beside its own `source_id`. One
    that looks private is left out."""
    shown = queries.set_index("query_id")["source_id"]
    drawn = ids[ids["query_id"].isin(queries["query_id"])].astype("str")
    is_other = drawn["source_id"] != drawn["query_id"].map(shown)
    drawn = drawn[is_other & drawn["source_id"].map(_is_public_name).astype(bool)]
    return drawn.sort_values(["query_id", "source_id"], ignore_index=True)


def _record_lines(items: AnyArray, reasons: AnyArray, ledger: Ledger) -> None:
    is_out = reasons != ""
    of_line = reasons[is_out]
    bucket = np.where(np.isin(of_line, _QUARANTINED), "quarantined", "rejected")
    rejections = rejection_rows(items[is_out], bucket, of_line)
    ledger.record_stage("log", "line", len(items), int((~is_out).sum()), rejections)


def _record_joined(lines: pd.DataFrame, first: pd.DataFrame, ids: AnyArray, ledger: Ledger) -> None:
    is_first = ~lines["question"].duplicated().to_numpy()
    others = lines[~is_first]
    same = others["code"].to_numpy() == first["code"].reindex(others["question"]).to_numpy()
    reasons = np.where(same, "same_text", "near_equal_text")
    rejections = rejection_rows(others["item"], "rejected", reasons, related_item=ids[others["question"].to_numpy()])
    ledger.record_stage("questions", "line", len(lines), int(is_first.sum()), rejections)


def assign_strata(queries: pd.DataFrame) -> AnyArray:
    """Return head, torso or tail per query (query_id, searches): by searches, of equal ones by id."""
    order = np.lexsort((queries["query_id"].to_numpy(dtype="U"), -queries["searches"].to_numpy()))
    searches = queries["searches"].to_numpy(dtype=np.float64)[order]
    before = np.cumsum(searches) - searches  # of the more frequent queries
    third = np.minimum(3 * before // max(searches.sum(), 1.0), 2).astype(int)
    strata = np.empty(len(queries), dtype=object)
    strata[order] = np.array(STRATA, dtype=object)[third]
    return strata


def draw_queries(queries: pd.DataFrame, count: int | None, seed: int) -> pd.DataFrame:
    """Return the drawn queries with `inclusion`, the probability that each had. Every stratum of the column `stratum`
    gives the same number; one with fewer queries gives all, and the others more. `count` None: all queries. A query's
    place in the draw does not depend on the others, so that a longer log keeps most of a draw."""
    if count is None:
        return queries.assign(inclusion=1.0)
    groups = sorted(queries.groupby("stratum", sort=True), key=lambda group: len(group[1]))
    drawn, left = [], count
    for place, (_, group) in enumerate(groups):
        share = min(len(group), left // (len(groups) - place))
        left -= share
        if share:
            hashes = [stable_hash("draw", str(seed), query_id) for query_id in group["query_id"]]
            first = np.argsort(np.array(hashes, dtype=np.uint64), kind="stable")[:share]
            drawn.append(group.iloc[np.sort(first)].assign(inclusion=share / len(group)))
    return pd.concat(drawn).sort_index() if drawn else queries.head(0).assign(inclusion=1.0)
