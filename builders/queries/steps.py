"""The steps of a set of own queries: read the log, draw queries, and make the tables."""

import pandas as pd

from builders.queries.definition import QueriesDefinition
from builders.queries.log_files import open_log
from builders.queries.search_log import STRATA, SearchLog, assign_strata, draw_queries
from querytruth.backends.files.column_profile import check_bad_rows
from querytruth.backends.files.durable_files import file_sha256
from querytruth.backends.files.table_profile import report_profile
from querytruth.backends.steps import step
from querytruth.errors import UserError
from querytruth.records import QUERIES_SCHEMA
from querytruth.sets.ledger import Ledger, rejection_rows
from querytruth.sets.manifest import Input
from querytruth.sets.manifest_notes import LogStratum


@step("read log")
def read_log(definition: QueriesDefinition, ledger: Ledger) -> tuple[pd.DataFrame, pd.DataFrame, Input]:
    """Return the questions of the log, each with `stratum` and `searches`, the ids of their lines, and the record of
    the log. Raises UserError for a log that cannot be read, and for one without a query."""
    path, log = definition.queries, SearchLog(definition.quarantine)
    delimiter, about, lines = open_log(path, definition.columns)
    log.read(lines)
    report_profile(path, *about)
    searches = log.read_counts(str(path), delimiter)
    check_bad_rows("read log", path, log.list_malformed(), len(log.codes))
    questions, ids = log.join_questions(searches, ledger)
    if unfinished := ledger.stages[-2].rejected.get("unfinished_input", 0):
        report_profile(
            path, f"contains every keystroke of a search box: {unfinished:,} lines are the beginning of others"
        )
    if not len(questions):
        stage = ledger.stages[-2]
        reasons = sorted((stage.rejected | stage.quarantined).items(), key=lambda pair: -pair[1])
        listed = ", ".join(f"{number:,} {reason.replace('_', ' ')}" for reason, number in reasons[:3])
        reason = f"contains no query in {stage.entered:,} lines ({listed or 'none'})"
        raise UserError("read log", path, reason, "check the file and `columns`")
    by_frequency = definition.sample is None or definition.sample.by == "frequency"
    questions["stratum"] = assign_strata(questions) if by_frequency else "all"
    counts = {"lines": len(log.codes), "queries": len(questions)}
    return questions, ids, Input(file=path.name, sha256=file_sha256(path)[0], counts=counts)


@step("draw queries")
def draw_sample(questions: pd.DataFrame, definition: QueriesDefinition, ledger: Ledger) -> pd.DataFrame:
    """Return the rows of the queries table. The ledger names those that were not drawn by their lines alone."""
    count = None if definition.sample is None else definition.sample.count
    drawn = draw_queries(questions, count, definition.seed)
    rest = questions.drop(drawn.index)
    rejections = rejection_rows(rest["item"].tolist(), "rejected", "not_drawn", item_id=rest["query_id"].tolist())
    ledger.record_stage("draw", "query", len(questions), len(drawn), rejections)
    columns = {"style": "query", "level": 1, "labels": None}
    return drawn.assign(**columns)[[name for name in QUERIES_SCHEMA.names if name in {*drawn, *columns}]]


def summarize_strata(questions: pd.DataFrame, drawn: pd.DataFrame) -> list[LogStratum]:
    """Return per stratum its queries and searches in the log, and how many queries were drawn."""
    rows: list[LogStratum] = []
    for name in (*STRATA, "all"):
        inside = questions[questions["stratum"] == name]
        if len(inside):
            count = int((drawn["stratum"] == name).sum())
            searches = int(inside["searches"].sum())
            rows.append({"stratum": name, "queries": len(inside), "searches": searches, "drawn": count})
    return rows
