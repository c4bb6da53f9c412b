"""The health of a generator, as figures, warnings and a page: new rows, lengths, frequent terms, yields.

The warnings are for the two failures that the seed article describes. Length and frequent terms are computed over all
valid rows, new or not: a collapse also shows in rows that are rejected as known. The page shows other runs, too.
"""

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from builders.generated.generation_journal import ReplyRow, Wave
from builders.generated.row_rules import ROW_REJECTION_REASONS, measure_length
from querytruth.review import page_parts
from querytruth.review.plots import draw_curve

RECENT_ROWS = 100  # rows
MIN_SOUND_ROWS = 40  # valid rows required for a warning
MAX_HEAD_SHARE = 0.25  # of the recent valid rows with the same term
MIN_GROWTH_RATIO = 1.5  # of the recent rows' length to that of people's and the first rows
MIN_GROWTH = {"zh": 2.0, "en": 1.0}  # characters or words
FIRST_ROWS_PER_TOPIC = 20  # valid rows of a topic that give its natural length
MIN_ACCEPTANCE = 0.1  # of all rows: the recent ones are few where topics are exhausted
MIN_OBJECTS_PER_ROUND, MIN_ROUNDS_FOR_POOR = 0.2, 5  # objects a round, after so many rounds
_SOUND = frozenset({"", "too_long", "too_similar", "known", "in_prompt", "repeated"})
_CHINESE = re.compile(r"[\u3400-\u4dbf\u4e00-\u7683\u7685-\u9fff]+")  # 的 separates terms
_SMALL = frozenset(["a", "an", "the", "of", "and", "or", "with", "in", "on", "at", "for", "to", "from", "by"])
_SLOTS = 60  # bars of a topic's strip
_OPEN_TOPICS = 24  # shown without unfolding
_UNITS = {"zh": "characters", "en": "words"}
_TemplateData = dict[str, Any]


@dataclass(frozen=True, slots=True)
class HealthWarning:
    """A warning: its code (collapse, drift, few_new, poor_topics) and a sentence with the cause."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class GeneratorHealth:
    """Figures of a run so far; lengths in characters (zh) or words (en). `head`: the most frequent term."""

    replies: int
    rows: int
    accepted: int
    recent_acceptance: float
    length: float
    length_of_people: float
    head: str
    head_share: float
    yields: dict[str, float]  # objects a round, by topic
    warnings: tuple[HealthWarning, ...]

    @property
    def summary_line(self) -> str:
        """Return the figures as one line of progress."""
        counts = f"{self.accepted} objects from {self.replies} replies, {self.recent_acceptance:.0%} of recent rows new"
        head = f", {self.head} in {self.head_share:.0%}" if self.head else ""
        return f"{counts}, length {self.length:.1f} (people {self.length_of_people:.1f}){head}"

    @property
    def plot_point(self) -> dict[str, float]:
        """Return the figures that the health page plots."""
        return {
            "replies": self.replies,
            "accepted": self.accepted,
            "acceptance": round(self.recent_acceptance, 4),
            "length": round(self.length, 4),
            "head": round(self.head_share, 4),
        }

    def as_dict(self) -> dict[str, Any]:
        """Return the figures for a summary."""
        return asdict(self)


def count_new_by_round(waves: Iterable[Wave]) -> dict[str, list[int]]:
    """Return the new objects of each topic per prompt, or per wave where prompts name no topic."""
    counts_by_topic: dict[str, list[int]] = {}
    for number, wave in enumerate(waves, start=1):
        for reply in wave:
            if reply.topic:
                counts_by_topic.setdefault(reply.topic, []).append(len(reply.accepted))
                continue
            for row in reply.accepted:
                counts = counts_by_topic.setdefault(row.topic, [])
                counts += [0] * (number - len(counts))
                counts[-1] += 1
    return counts_by_topic


class HealthMonitor:
    """Updates the figures wave by wave at constant cost. `human_objects`: the objects that people gave, by topic."""

    def __init__(self, human_objects: Mapping[str, Sequence[str]], language: str) -> None:
        self._language = language
        self._people = self._mean_length(text for of_topic in human_objects.values() for text in of_topic)
        self._of_topic = {topic: self._mean_length(of_it) for topic, of_it in human_objects.items() if of_it}
        self._first: dict[str, list[int]] = {}
        self._recent: deque[ReplyRow] = deque(maxlen=RECENT_ROWS)
        self._sound: deque[tuple[str, str]] = deque(maxlen=RECENT_ROWS)  # topic of the prompt, text
        self._topics: dict[str, list[int]] = {}  # rounds, objects
        self._replies = self._rows = self._accepted = 0

    def add(self, wave: Wave) -> None:
        """Add a classified wave."""
        self._replies += len(wave)
        for reply in wave:
            self._rows += len(reply.rows)
            self._accepted += len(reply.accepted)
            self._recent.extend(reply.rows)
            sound = [row.text for row in reply.rows if row.reason in _SOUND]
            self._sound.extend((reply.topic, text) for text in sound)
            first = self._first.setdefault(reply.topic, [])
            missing = max(FIRST_ROWS_PER_TOPIC - len(first), 0)
            first += [measure_length(text, self._language) for text in sound[:missing]]
            if reply.topic:
                counted = self._topics.setdefault(reply.topic, [0, 0])
                counted[0] += 1
                counted[1] += len(reply.accepted)

    def compute_health(self) -> GeneratorHealth:
        """Return the current figures and their warnings."""
        lengths = [measure_length(text, self._language) for _, text in self._sound]
        head, share = self._head()
        yields = {topic: objects / rounds for topic, (rounds, objects) in sorted(self._topics.items())}
        recent = sum(not row.reason for row in self._recent) / max(len(self._recent), 1)
        length = fmean(lengths) if lengths else 0.0
        warnings = tuple(self._warnings(head, share))
        return GeneratorHealth(
            self._replies, self._rows, self._accepted, recent, length, self._people, head, share, yields, warnings
        )

    def _warnings(self, head: str, share: float) -> Iterator[HealthWarning]:
        is_enough = len(self._sound) >= MIN_SOUND_ROWS
        if is_enough and share > MAX_HEAD_SHARE:
            finding = f"{share:.0%} of the last {len(self._sound)} rows name {head}"
            yield HealthWarning("collapse", f"{finding}: the model repeats itself")
        longer, times = self._growth()
        if is_enough and longer >= MIN_GROWTH[self._language] and times >= MIN_GROWTH_RATIO:
            unit = _UNITS[self._language]
            finding = f"the latest rows are {longer:.1f} {unit} longer than the first rows and than people's rows"
            yield HealthWarning("drift", f"{finding}: the model adds more and more words")
        new = self._accepted / max(self._rows, 1)
        if self._rows >= MIN_SOUND_ROWS and new < MIN_ACCEPTANCE:
            rejected = Counter(row.reason for row in self._recent if row.reason)
            reason, count = min(rejected.items(), key=lambda item: (-item[1], item[0]), default=("known", 0))
            rows, recent, why = self._rows, len(self._recent), reason.replace("_", " ")
            finding = f"{new:.0%} of {rows} rows are new; of the last {recent}, {count} are {why}"
            yield HealthWarning("few_new", finding)
        poor = [
            topic
            for topic, (rounds, n) in sorted(self._topics.items())
            if rounds >= MIN_ROUNDS_FOR_POOR and n < MIN_OBJECTS_PER_ROUND * rounds
        ]
        if poor:
            yield HealthWarning("poor_topics", f"{len(poor)} topics yield almost no objects: {', '.join(poor[:5])}")

    def _growth(self) -> tuple[float, float]:
        """Return the difference and the ratio of the recent length to the natural length of the topics."""
        if not self._sound or not (base := fmean(self._natural(topic) for topic, _ in self._sound)):
            return 0.0, 0.0
        now = self._mean_length(text for _, text in self._sound)
        return now - base, now / base

    def _natural(self, topic: str) -> float:
        """Return the larger mean length of the topic's human objects and the model's first objects."""
        first = self._first.get(topic)
        return max(self._of_topic.get(topic, self._people), fmean(first) if first else 0.0)

    def _head(self) -> tuple[str, float]:
        """Return the most frequent term (two characters or a word) of the recent valid rows besides their topic, and
        its share. With several topics, a term must occur in two of them."""
        counted: Counter[str] = Counter()
        topics: dict[str, set[str]] = {}
        for topic, text in self._sound:
            units = self._units(text) - self._units(topic)
            counted.update(units)
            for unit in units:
                topics.setdefault(unit, set()).add(topic)
        least = min(2, len(self._topics) or 1)
        spread = [unit for unit in counted if len(topics[unit]) >= least]
        if not spread:
            return "", 0.0
        head = min(spread, key=lambda unit: (-counted[unit], unit))
        return head, counted[head] / len(self._sound)

    def _units(self, text: str) -> set[str]:
        if self._language == "zh":
            return {run[at : at + 2] for run in _CHINESE.findall(text) for at in range(len(run) - 1)}
        return {token for token in text.casefold().split() if token not in _SMALL}

    def _mean_length(self, texts: Iterable[str]) -> float:
        lengths = [measure_length(text, self._language) for text in texts]
        return fmean(lengths) if lengths else 0.0


def render_health_page(name: str, run: dict[str, Any], runs: Sequence[dict[str, Any]]) -> str:
    """Return one HTML document without other files and scripts. `run`: the summary of a finished stage; `runs`: those
    of all runs of the stage."""
    health, course = run["health"], run["course"]
    topics = _topics(run["new_by_round"])
    return page_parts.render_report(
        "health_page.html",
        run["funnel"],
        name=name,
        stage=run["stage"],
        strategy=run["strategy"].replace("_", " "),
        strategy_text=page_parts.PAGE_TEXTS["health_strategies"][run["strategy"]],
        health=health,
        new=health["accepted"] / max(health["rows"], 1),
        tokens=run["tokens"],
        stops=[(why.replace("_", " "), count) for why, count in sorted(run["stops"].items())],
        warnings=[{**one, "advice": page_parts.PAGE_TEXTS["health_advice"][one["code"]]} for one in health["warnings"]],
        plots=_plots(course, health, _UNITS[run["language"]]),
        rounds=(course[0]["replies"], course[-1]["replies"]) if course else (0, 0),
        topics=(topics[:_OPEN_TOPICS], topics[_OPEN_TOPICS:]),
        has_topics=bool(health["yields"]),
        reasons=[
            (reason.replace("_", " "), ROW_REJECTION_REASONS.get(reason, ""), count)
            for reason, count in sorted(run["rows"].items(), key=lambda pair: (-pair[1], pair[0]))
            if reason != "accepted"
        ],
        runs=[build_run_row(one) for one in runs] if len(runs) > 1 else [],
    )


def build_run_row(run: dict[str, Any]) -> _TemplateData:
    """Return a run as a row of a table: its settings and its figures."""
    health = run["health"]
    accepted = int(health["accepted"])
    return {
        "run": run["journal"].rpartition("-")[2][:6],
        "is_current": run["is_current"],
        "strategy": run["strategy"],
        "model": run["models"][0]["name"],
        "replies": health["replies"],
        "objects": accepted,
        "new": accepted / max(health["rows"], 1),
        **{name: health[name] for name in ("length", "length_of_people", "head", "head_share")},
        "tokens_per_object": run["tokens"] / accepted if accepted else None,
        "warnings": [warning["code"] for warning in health["warnings"]],
    }


def _plots(course: Sequence[dict[str, float]], health: _TemplateData, unit: str) -> list[_TemplateData]:
    """Return the curves with points; each has a title, a note, and whether its values are shares."""
    people, named_most = health["length_of_people"], {"warned of": MAX_HEAD_SHARE}
    sound = page_parts.translate("mean of the last 100 valid rows, in %(unit)s", unit=page_parts.translate(unit))
    curves: list[tuple[str, str, str, float, dict[str, float], bool]] = [
        ("acceptance", "New rows", "share of the last 100 rows", 1.0, {}, True),
        ("length", "Length", sound,
         1.5 * people or 1.0, {"people's": people} if people else {}, False),
        ("head", "Most frequent", "share of the last 100 valid rows with the same term", 0.5, named_most, True),
        ("accepted", "Objects found", "total so far", 1.0, {}, False),
    ]  # fmt: skip
    return [
        {"title": title, "note": note, "plot": plot, "is_share": is_share}
        for key, title, note, highest, cuts, is_share in curves
        if (plot := draw_curve(title, [(point["replies"], point[key]) for point in course], highest, cuts))
    ]


def _topics(counts_by_topic: dict[str, list[int]]) -> list[_TemplateData]:
    """Return the topics with their bars, the highest yield first."""
    strips = {topic: _merge_bars(numbers) for topic, numbers in counts_by_topic.items()}
    most = max((max(strip, default=0) for strip in strips.values()), default=0)
    ordered = sorted(counts_by_topic, key=lambda topic: (-sum(counts_by_topic[topic]), topic))
    return [
        {
            "topic": topic,
            "total": sum(counts_by_topic[topic]),
            "rounds": len(counts_by_topic[topic]),
            "bars": [(number, 100 * number / max(most, 1)) for number in strips[topic]],
        }
        for topic in ordered
    ]


def _merge_bars(numbers: Sequence[int]) -> list[int]:
    """Return at most `_SLOTS` bars; neighbours are added up where there are more rounds."""
    every = -(-len(numbers) // _SLOTS) or 1
    return [sum(numbers[start : start + every]) for start in range(0, len(numbers), every)]
