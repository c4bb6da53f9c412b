"""Gates a candidate system against a baseline on one set, and writes the report for people and for CI."""

from dataclasses import replace
from pathlib import Path

import pandas as pd

from querytruth.backends.files.durable_files import write_atomically
from querytruth.backends.steps import step
from querytruth.errors import translate_write_errors
from querytruth.evaluation import judged_sets, release_gate, statistics, steps, systems
from querytruth.review.gate_reports import gate_to_json, render_gate_junit, render_gate_markdown
from querytruth.sets.benchmark_set import canonical_json

GATE_FILES = ("gate.json", "gate.md", "gate.junit.xml")


@step("gate")
def run_gate(
    judged: judged_sets.JudgedSet,
    candidate: systems.EvaluatedSystem,
    baseline: systems.EvaluatedSystem,
    spec: release_gate.GateSpec,
) -> release_gate.GateReport:
    """Return the checks of the candidate against the baseline, on the queries that both runs' versions have. Raises
    UserError for a slice without queries, a run of a version with other images, and a latency that was not measured."""
    view = judged_sets.build_evaluation_view(judged, "text_to_image", list(spec.margins), ())
    scored = steps.score_on_common_queries(view, [candidate, baseline], one_gallery=True)
    tables = [one.result.per_query for one in scored]
    clusters = statistics.align_clusters(view.spec.clusters, tables[0].index)
    figures = []
    for name, rows in release_gate.find_slices(judged, tables[0].index, spec.slices).items():
        for metric, margin in spec.margins.items():
            values = [table[metric].to_numpy()[rows] for table in tables]
            shared = None if clusters is None else clusters[rows]
            figures.append(release_gate.GatedFigure(metric, name, values[0], values[1], margin, shared))
    checks = release_gate.check_gate(figures)
    if have_same_results(*(one.run for one in scored)):  # the same list for every query loses nothing anywhere
        checks = [replace(one, verdict="PASS", further_queries=None) for one in checks]
    latency = release_gate.check_latency(candidate, spec.latency_budget)
    verdict = release_gate.combine_verdicts([*(one.verdict for one in checks), *(one.verdict for one in latency)])
    candidate_name, baseline_name = (str(one.description["name"]) for one in (candidate, baseline))
    of_set = scored[0].result.counts["queries_of_set"]
    queries = judged.queries
    asked = () if queries is None else queries.loc[queries["query_id"].isin(tables[0].index), "labels"].dropna()
    labels = len({label for row in asked for label in row})
    return release_gate.GateReport(
        judged.description, candidate_name, baseline_name, checks, latency, verdict, of_set, labels
    )


def have_same_results(candidate: pd.DataFrame, baseline: pd.DataFrame) -> bool:
    """Return whether two runs, each by query and rank, list the same images for every query in the same order."""
    pair = ["query_id", "image_id"]
    lists = (run[pair].astype("str").reset_index(drop=True) for run in (candidate, baseline))
    return len(candidate) == len(baseline) and next(lists).equals(next(lists))


def write_gate_report(report: release_gate.GateReport, folder: Path, *, is_undecided_failure: bool) -> list[Path]:
    """Write GATE_FILES into the folder and return their paths. Raises UserError."""
    contents = (
        canonical_json(gate_to_json(report)),
        render_gate_markdown(report).encode(),
        render_gate_junit(report, is_undecided_failure=is_undecided_failure),
    )
    paths = [folder / name for name in GATE_FILES]
    with translate_write_errors(release_gate.GATE_STAGE, folder, "or give another folder with --report"):
        folder.mkdir(parents=True, exist_ok=True)
        for path, content in zip(paths, contents, strict=True):
            write_atomically(path, content)
    return paths
