"""Names of metrics with all their options: `ndcg@10`, `ap@50(norm=min)`, `p@r`."""

import re
from dataclasses import dataclass

import numpy as np

from builders.array_types import FloatArray
from builders.errors import UserError, suggest_choice
from evaluation.metrics import METRIC_FUNCTIONS
from evaluation.ranking import Hits, RankedRun

_NAME = re.compile(r"(?P<name>[a-z_]+)(?:@(?P<cut>[^()]*))?(?:\((?P<options>[^()]*)\))?")
_ALIASES = {"acc": "hit", "mrr": "rr", "map": "ap", "precision": "p", "success": "hit"}
_FULL_ALIASES = {"r_precision": "p@r", "rprec": "p@r"}
_STAGE = "choose metrics"


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric. `cut` is a number, "r" (as many as are relevant) or None; `options` holds all, with defaults, in
    order."""

    name: str
    cut: int | str | None
    options: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        """The shortest name that parses to this metric."""
        choices = METRIC_FUNCTIONS[self.name].options
        options = ",".join(f"{key}={value}" for key, value in self.options if value != choices[key][0])
        return self.name + ("" if self.cut is None else f"@{self.cut}") + (f"({options})" if options else "")

    @property
    def definition(self) -> str:
        """The exact definition of what is computed."""
        text = " ".join(str(METRIC_FUNCTIONS[self.name].function.__doc__).split())
        chosen = [f"{key}={value}" for key, value in self.options]
        if isinstance(self.cut, int):
            chosen.insert(0, f"k = {self.cut}")
        elif self.cut == "r":
            chosen.insert(0, "k = R, the number of relevant images of the query")
        else:
            chosen.insert(0, "k = all that came back")
        return f"{text} Here: {', '.join(chosen)}."


def parse_metric(text: str) -> Metric:
    """Returns the metric of a name in any case. Raises UserError with the nearest name for an unknown one, and with the
    possible cuts or options for a wrong one."""
    plain = text.strip().lower().replace("-", "_").replace(" ", "")
    match = _NAME.fullmatch(_FULL_ALIASES.get(plain, plain))
    if not match:
        raise UserError(_STAGE, text, "is no name of a metric", "write it like ndcg@10 or ap@50(norm=min)")
    name = _ALIASES.get(match["name"], match["name"])
    if name == "recall":
        fix = "choose r (the share of all relevant images) or hit (whether any came back)"
        raise UserError(_STAGE, text, "has two meanings", fix)
    if name not in METRIC_FUNCTIONS:
        raise UserError(_STAGE, text, "is no metric", suggest_choice(name, list(METRIC_FUNCTIONS)))
    return Metric(name, _cut(text, name, match["cut"]), _options(text, name, match["options"]))


def compute_metric(ranked: RankedRun, metric: Metric) -> FloatArray:
    """Returns a value per query of the truth, (queries,)."""
    return compute_metric_from_hits(ranked.hits, metric)


def compute_metric_from_hits(hits: Hits, metric: Metric) -> FloatArray:
    """Returns the same from hits alone, with their `relevant_counts` as R."""
    cut = hits.relevant_counts if isinstance(metric.cut, str) else metric.cut
    with np.errstate(all="raise"):
        return METRIC_FUNCTIONS[metric.name].function(hits.within_cut(cut), cut, **dict(metric.options))


def _cut(text: str, name: str, given: str | None) -> int | str | None:
    cuts = METRIC_FUNCTIONS[name].cuts
    if given is None and "" in cuts:
        return None
    if given == "r" and "r" in cuts:
        return "r"
    if given and re.fullmatch("0*[1-9][0-9]{0,8}", given):
        return int(given)
    wanted = {"k": f"{name}@K with a whole number from 1", "r": f"{name}@r", "": name}
    reason = f"has the cut {given!r}" if given is not None else "has no cut"
    raise UserError(_STAGE, text, reason, "write " + " or ".join(wanted[cut] for cut in cuts))


def _options(text: str, name: str, given: str | None) -> tuple[tuple[str, str], ...]:
    choices = METRIC_FUNCTIONS[name].options
    chosen = {key: values[0] for key, values in choices.items()}
    for part in (given or "").split(",") if given else []:
        key, _, value = part.partition("=")
        if value not in choices.get(key, ()):
            known = [f"{name}: {option}={value}" for option, values in choices.items() for value in values]
            raise UserError(_STAGE, text, f"has no option {part!r}", "choose from " + (", ".join(known) or "none"))
        chosen[key] = value
    return tuple(sorted(chosen.items()))
