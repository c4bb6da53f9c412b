"""`querytruth audit`, `overlap` and `notice`: can the truth of a set be trusted?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from flows.requests import DrawRequest
from querytruth import terminal
from querytruth.audit.requests import NoticeRequest, OverlapRequest
from querytruth.cli import options
from querytruth.cli.command_line import command, group, option
from querytruth.defaults import DATASETS_FOLDER

if TYPE_CHECKING:
    from querytruth.api.set_trust import SetAudit

app = group("audit", "Estimate how many judgments of a set are missing or wrong.")
NameOption = Annotated[str, option(help="Name of the audit.")]


def _prepare(request: DrawRequest) -> SetAudit:
    from querytruth.api.set_trust import SetAudit

    with terminal.reported_run():
        return SetAudit(request.load_definition())


@app.command
@command
def plan(json: options.JsonOption = False, *, request: DrawRequest) -> None:
    """Show what an audit would judge, the width of its interval, hours of people and calls of a judge. Writes nothing.

    Example: querytruth audit plan family-album --run bm25.trec --run clip.trec --until recall=0.9

    Example: querytruth audit plan audit.yaml --set judgments=500
    """
    planned = _prepare(request).plan
    if json:
        terminal.print_json(planned)
        return
    columns = ["stratum", "pairs", "to_judge"][: 2 if planned["expected_width"] is None else 3]  # cards are not drawn
    rows: list[list[object]] = [[row[name] for name in columns] for row in planned["strata"]]
    terminal.print_table(f"Audit of {planned['set']}", [name.replace("_", " ") for name in columns], rows)
    pace = f"{planned['seconds_per_judgment']} s per pair, {'assumed' if planned['pace_is_assumed'] else 'as logged'}"
    each = f" by {planned['people']} people each" if planned["people"] > 1 else ""
    work = f"{planned['judgments']:,} judgments{each}, about {planned['hours']} hours"
    terminal.say(f"{work} ({pace})")
    if planned["judge"] is not None:
        cost = [f"{value:,} {unit}" for unit, value in planned["judge_cost"].items() if value is not None]
        costs = f" ({', '.join(cost)})" if cost else ""
        terminal.say(f"judge {planned['judge']}: {planned['judge_calls']:,} calls{costs}")
    if planned["expected_width"] is not None:
        widths = ", ".join(f"{width:.3f} wide if {share}" for share, width in planned["expected_width"].items())
        rest = f"{widths} of the pairs that are not relevant in the set are relevant"
        terminal.say(f"the interval of the missing share is about {rest}")
    terminal.say("Next: run the same command with start instead of plan")


@app.command
@command
def start(json: options.JsonOption = False, *, request: DrawRequest) -> None:
    """Draw the sample of an audit and store it next to the versions of the set. The same command draws the same sample.

    Example: querytruth audit start family-album --run bm25.trec --run clip.trec --judgments 300

    Example: querytruth audit start family-album --run bm25.trec --run clip.trec --until recall=0.9

    Example: querytruth audit start audit.yaml
    """
    audit = _prepare(request)
    with terminal.reported_run(offline=request.offline):
        manifest = audit.start()
    if json:
        terminal.print_json(manifest)
        return
    rows: list[list[object]] = [[row["stratum"], row["pairs"], row["drawn"]] for row in manifest["strata"]]
    rows.append(["outside", manifest["outside"]["pairs"], manifest["outside"]["drawn"]])
    wanted, about = audit.definition, manifest["set"]
    title = f"{wanted.name}, an audit of {about['name']}/v{about['version']}"
    terminal.print_table(title, ["stratum", "pairs", "drawn"], rows)
    export = "" if wanted.until else f", or querytruth review export-csv {wanted.set} --audit {wanted.name}"
    terminal.say(f"Next: querytruth review {wanted.set} (view Audit){export}")


@app.command
@command
def report(
    set_: options.SetArgument,
    name: NameOption = "audit",
    out: options.OutOption = DATASETS_FOLDER,
    json: options.JsonOption = False,
    page: Annotated[bool, option("--page/--no-page", help="Write report.html into the folder of the audit.")] = True,
    page_language: options.PageLanguageOption = "en",
) -> None:
    """Estimate from the answers so far how much of the truth is missing or wrong, and correct the figures.

    Example: querytruth audit report family-album
    """
    from querytruth.audit.report import report_audit
    from querytruth.cli.trust_tables import show_audit_report
    from querytruth.sets import set_files

    with terminal.reported_run():
        findings, file = report_audit(set_files.find_set(set_, out), name, page_language if page else None)
    if json:
        terminal.print_json(findings)
        return
    show_audit_report(findings)
    terminal.say(f"written: {file}")
    terminal.say(f"Next: querytruth apply {set_}")


@command
def overlap(json: options.JsonOption = False, *, request: OverlapRequest) -> None:
    """Find overlap between a set and training data or another set: images, texts, and the queries that they leak.

    Example: querytruth overlap family-album --against training/images --against captions.parquet --to overlap"""
    terminal.report(f"querytruth: comparing {request.of} with {', '.join(request.against)}")
    from querytruth.audit.overlap_page import overlap_set
    from querytruth.audit.overlap_pairs import describe_bytes_alone

    with terminal.reported_run():
        _, summary, page, dropped = overlap_set(request)
    if json:
        terminal.print_json(summary)
        return
    pairs = ", ".join(f"{count:,} by {name}" for name, count in summary["pairs"].items()) or "none"
    leaked = f"{summary['leaked']:,} of {summary['queries']:,} queries are leaked"
    by = f"{summary['leaked_by_image']:,} by an image, {summary['leaked_by_text']:,} by the text"
    others = {name.replace("_", " "): len(queries) for name, queries in summary["queries_by_overlap"].items()}
    rest = "".join(f"; {others[name]:,} {name}" for name in ("partly leaked", "unknown") if name in others)
    terminal.say(f"pairs: {pairs}\n{leaked}{rest} ({by})")
    terminal.say(f"{summary['images_compared']:,} of {summary['images']:,} images of the set were compared")
    if summary["by_bytes_alone"]:
        alone = describe_bytes_alone(summary["by_bytes_alone"])
        terminal.say(f"without a hash, so edited copies are not found: {alone}")
    terminal.say(f"not checked: {'; '.join(summary['not_searched'])}")
    terminal.say(f"written: {page}")
    if request.drop:
        terminal.say(f"{dropped:,} queries marked to be dropped; next: querytruth apply {request.of}")


@command
def notice(json: options.JsonOption = False, *, request: NoticeRequest) -> None:
    """Measure which kinds of damage to a search a set detects, and what that search never finds.

    Example: querytruth notice family-album --run bm25.trec --metric ndcg@10 --margin 0.01"""
    terminal.report(f"querytruth: damaging the results on {request.of}")
    from querytruth.audit.notice import notice_set
    from querytruth.cli.trust_tables import show_notice

    with terminal.reported_run():
        found, page = notice_set(request)
    if json:
        terminal.print_json(found)
        return
    show_notice(found)
    terminal.say(f"written: {page}")
