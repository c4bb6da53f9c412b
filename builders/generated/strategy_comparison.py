"""All strategies on one budget, side by side: which of them collapses, and which drifts.

Each strategy gets the same samples and the same number of questions, and its run a folder of its own beside the set's,
so that the tables of the set stay people's. Nobody chooses between the stages: what the model found is kept. Of the
budget, a strategy whose model names the topics spends a fifth on them.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from builders.generated.definition import GeneratedDefinition
from builders.generated.generator_health import MAX_HEAD_SHARE, build_run_row
from builders.generated.stages import list_finished_runs, load_stage_summary, run_objects_stage, run_topics_stage
from builders.generated.topic_pools import STRATEGIES
from querytruth.backends.files.durable_files import write_page
from querytruth.errors import UserError
from querytruth.review import page_parts
from querytruth.review.plots import draw_curve

_TOPICS_SHARE = 5  # of the questions, one in so many is about topics
LEAST_QUESTIONS = 10


def compare_strategies(
    definition: GeneratedDefinition, source: str, questions: int
) -> tuple[list[dict[str, Any]], Path]:
    """Run both stages of every strategy with so many questions each. Return a row of figures per strategy (of
    `build_run_row`, with `questions`, `drift` and `stops`) and the page with the plots. Raises UserError where a run
    cannot go on."""
    if questions < LEAST_QUESTIONS:
        raise UserError("compare strategies", questions, "is too few to show a trend", f"use {LEAST_QUESTIONS} or more")
    runs, rows = [], []
    for strategy in STRATEGIES:
        run, row = _run_strategy(_budgeted(definition, strategy, questions), source, questions)
        runs.append(run)
        rows.append(row)
    page = definition.out / definition.name / "review" / "strategies.html"
    page.parent.mkdir(parents=True, exist_ok=True)
    write_page(page, render_strategies_page(definition.name, questions, runs, rows), "fix that, then run again")
    return rows, page


def _budgeted(definition: GeneratedDefinition, strategy: str, questions: int) -> GeneratedDefinition:
    """Return the definition of one strategy's run. It shares the set's replies: a question that both ask is paid
    once."""
    of_topics = max(1, questions // _TOPICS_SHARE) if STRATEGIES[strategy].proposes_topics else 0
    topics = definition.topics.model_copy(update={"rounds": max(of_topics, 1), "calls": of_topics, "tokens": None})
    rounds = max(definition.objects.rounds, questions + 1)  # the budget ends a run, not its rounds
    objects = {"rounds": rounds, "calls": questions - of_topics, "tokens": None, "prompt": None}
    return definition.model_copy(
        update={
            "name": f"{definition.name}-{strategy.replace('_', '-')}",
            "strategy": strategy,
            "topics": topics,
            "objects": definition.objects.model_copy(update=objects),
            "replies": definition.replies or str(definition.out / definition.name / "replies.sqlite"),
        }
    )


def _run_strategy(
    definition: GeneratedDefinition, source: str, questions: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    run_topics_stage(definition, source)
    result = run_objects_stage(definition, source)
    asked = load_stage_summary(definition, "topics", source)["health"]["replies"]
    run = next(one for one in list_finished_runs(definition, "objects") if one["is_current"])
    row = build_run_row(run)
    people = row["length_of_people"]
    drift = row["length"] / people if people else 0.0
    stops = ", ".join(sorted(why.replace("_", " ") for why in result.stop_counts))
    return run, {**row, "questions": asked + row["replies"], "drift": drift, "stops": stops}


def render_strategies_page(
    name: str, questions: int, runs: Sequence[dict[str, Any]], rows: Sequence[dict[str, Any]]
) -> str:
    """Return one HTML document with the course of the two failures, a plot per strategy, all with one axis."""
    titles = [str(row["strategy"]).replace("_", " ") for row in rows]
    people = max((row["length_of_people"] for row in rows), default=0.0)
    figures = []
    for key, cuts in (("head", {"warned of": MAX_HEAD_SHARE}), ("length", {"people's": people} if people else {})):
        least = 1.0 if key == "head" else max((point[key] for run in runs for point in run["course"]), default=1.0)
        courses = [[(point["replies"], point[key]) for point in run["course"]] for run in runs]
        figures.append([draw_curve(title, of, least, cuts) for title, of in zip(titles, courses, strict=True)])
    concentration, drift = (
        [{"title": title, "plot": plot, "row": row} for title, plot, row in zip(titles, some, rows, strict=True)]
        for some in figures
    )
    return page_parts.render_template(
        "strategies_page.html", name=name, questions=questions, concentration=concentration, drift=drift, rows=rows
    )
