"""`querytruth demo`: builds, checks and shows the sets of the sample album."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures.process import BrokenProcessPool, ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from querytruth import terminal
from querytruth.cli.command_line import argument, command, option
from querytruth.errors import UserError, translate_write_errors

if TYPE_CHECKING:
    from querytruth.evaluation.steps import StoredResult
    from querytruth.sample_album.album import AlbumImage


@command
def demo_servers(
    folder: Annotated[Path, argument(help="Photos to search.", metavar="FOLDER")],
    captions: Annotated[int, option(help="Port of the caption endpoint.", min=1, max=65535)] = 8001,
    search: Annotated[int, option(help="Port of the search.", min=1, max=65535)] = 8002,
) -> None:
    """Serve a mock caption endpoint and a mock search, to try the tutorial.

    Both answer by colours only, not by what an image shows. Stop them with Ctrl-C.

    Example: querytruth demo-servers photos
    """
    from querytruth.sample_album.stand_in_servers import serve_stand_ins

    serve_stand_ins(folder, captions, search)


@command
def demo(
    out: Annotated[Path, option(help="Folder for the album, the sets and the page.")] = Path("demo"),
    prefect: Annotated[bool, option("--prefect/--in-process", help="Run the build as a Prefect flow.")] = True,
) -> None:
    """Build, check and show the sets of the sample album.

    Writes the album, builds its gallery, its recall set, its three precision sets, one from file metadata, its
    generated set and one of queries of a search log, evaluates the baselines on them, gates two search services,
    certifies one set, and writes pages to look at. No network, no model.

    Example: querytruth demo --out demo
    """
    start = time.monotonic()
    terminal.report("querytruth demo: writing the sample album")
    from multiprocessing import get_context

    from flows.leaderboard import build_leaderboard, write_leaderboard
    from querytruth.sample_album.album_files import write_sample_album
    from querytruth.sets.set_files import find_set

    # State, settings and server of Prefect are below the demo's folder, apart from the user's own.
    home = Path(os.environ.setdefault("PREFECT_HOME", str((out / ".prefect").absolute())))
    with translate_write_errors("write album", out, "or give --out another folder"):
        home.mkdir(
            mode=0o700, parents=True, exist_ok=True
        )  # Prefect makes it alone, and warns where its parent is not there
    with _one_server(prefect) as wait_until_ready:
        with translate_write_errors("write album", out, "or give --out another folder"), terminal.reported_run():
            album_images = write_sample_album(out / "album")
        terminal.say(f"{len(album_images)} images in {out / 'album' / 'images'}")
        photos, stages = _write_photos(out, album_images), _run_generated_stages(out)
        wait_until_ready()
        images = f"images={out / 'album' / 'images'}"
        is_intact = _build_sample_set("gallery", [images], out, prefect)
        tables = [f"{part}.options.path={out / 'album' / part}.csv" for part in ("captions", "descriptions")]
        is_intact &= _build_sample_set("recall", tables, out, prefect)
        captions, texts = find_set(str(out / "datasets" / "sample-captions")), out / "album" / "descriptions.csv"
        beside = ProcessPoolExecutor(1, get_context("spawn"))  # searches are asked while the other sets are built
        searched = beside.submit(ask_search_services, captions, texts, out)
        beside.shutdown(wait=False)
        boxes = f"annotations={out / 'album' / 'annotations.json'}"
        is_intact &= _build_sample_set("precision", [images, boxes], out, prefect)
        is_intact &= _build_sample_set("precision", [images, boxes], out, prefect, "families")
        is_intact &= _build_sample_set("precision", [images, boxes], out, prefect, "phrasings")
        uncovered = [images, "name=sample-uncovered", "select.uncovered_by=sample-phrasings"]  # which no query asks for
        is_intact &= _build_sample_set("gallery", uncovered, out, prefect)
        is_intact &= _build_sample_set("precision", photos, out, prefect, "album")
        is_intact &= _build_sample_set("generated", stages, out, prefect)
        is_intact &= _build_sample_set("queries", [images], out, prefect, "log")
    log = _judge_log(out, album_images)
    objects, queries = (find_set(str(out / "datasets" / name)) for name in ("sample-objects", "sample-queries"))
    evaluate_baselines({captions: texts, objects: None, queries: None, log: texts})
    terminal.say(wait_for_searches(searched.result))
    write_leaderboard(build_leaderboard(captions), out / "search" / "leaderboard.html")
    _audit_queries(queries, out, album_images)
    from flows.door import Door, write_static

    with terminal.reported_run():
        page = write_static(Door(out, out / "datasets"), out, with_names=True)
    terminal.say(f" ({time.monotonic() - start:.0f} s in total)", bold=f"Open {page}")
    newest = out / "datasets" / "sample-objects"
    steps = f"querytruth open {out}; querytruth lint {newest}; querytruth export {newest} mteb {out / 'mteb'}"
    terminal.say(f"Next: {steps}")
    if not is_intact:
        raise SystemExit(1)


def _audit_queries(version: Path, out: Path, album_images: list[AlbumImage]) -> None:
    """Certify a copy of the generated set with a scripted judge and a scripted person, and print what is certified
    beside the truth."""
    from querytruth.sample_album.scripted_person import certify_sample_queries
    from querytruth.sets.manifest_notes import describe_certificate

    results = version.parent / "evaluations" / version.name
    runs = [results / "lexical", results / "random"]
    with terminal.reported_run():
        found = certify_sample_queries(version, out / "audited", album_images, runs)
    drawn = f"by the drawn scenes it contains {found.recall:.1%}, and {found.wrong_share:.1%} of it is wrong"
    terminal.say(f"certificate of {version.parent.name}: {describe_certificate(found.stated)}; {drawn}: the "
                       f"certificate {'holds' if found.is_held else 'does not hold'}")  # fmt: skip


def _judge_log(out: Path, album_images: list[AlbumImage]) -> Path:
    """Judge the queries of the search log by the drawn scenes, and return the version with the judgments."""
    from querytruth.sample_album.scripted_person import judge_sample_log
    from querytruth.sets.set_files import find_set

    with terminal.reported_run():
        judged = judge_sample_log(find_set(str(out / "datasets" / "sample-log")), album_images)
    counts = judged.manifest["counts"]
    text = f"{judged.path.parent.name}/{judged.path.name}: {counts['judgments']:,} judgments of a scripted person"
    terminal.say(f"{text} on {counts['queries']} queries of a search log\n")
    return judged.path


def ask_search_services(version: Path, texts: Path, out: Path) -> str:
    """Evaluate two search services on loopback, and return what the gates decide, what two checks find, and what the
    set would notice of a third search."""
    from querytruth.audit.notice import list_blind_kinds
    from querytruth.review.gate_reports import list_verdicts
    from querytruth.sample_album.demo_search import evaluate_sample_search, notice_sample_search

    _, gates, checks = evaluate_sample_search(version, texts, out / "search", out / "album" / "images")
    found, noticed = notice_sample_search(version, texts, out / "search")  # its index lacks the newest months
    lines = [
        f"gate of {one.candidate} against {one.baseline}: {one.verdict} ({list_verdicts(one)[0][2]})" for one in gates
    ]
    for report in checks:
        page = out / "search" / f"check-{report.system}" / "check.html"
        lines += [f"check of {report.golden}, {report} ({page})", *(f"  {one.query}: {one}" for one in report.failures)]
    blind = [f"  {one['kind']}: {one['share']:.0%} of these are never found" for one in list_blind_kinds(found)]
    return "\n".join([*lines, f"{found['line']} ({noticed})", *blind[:1]])


def wait_for_searches(wait: Callable[[], str]) -> str:
    """Return what the other process found. Raises UserError where the system ended that process."""
    try:
        return wait()
    except BrokenProcessPool:
        reason = "the process that asked them was ended, perhaps for lack of memory"
        raise UserError("demo", "search services", reason, "free some memory, then run the same command") from None


@contextmanager
def _one_server(prefect: bool) -> Iterator[Callable[[], None]]:
    """Start one Prefect server for all builds of the block, where none is configured. Yield the function that waits
    until it answers."""
    from flows.flow_entrypoint import configured_server, silence_prefect

    if not prefect or configured_server():
        yield lambda: None
        return
    silence_prefect()
    from flows.prefect_runs.one_off_run import start_own_server

    with start_own_server() as wait_until_ready:
        yield wait_until_ready


def _write_photos(out: Path, album_images: list[AlbumImage]) -> list[str]:
    """Write photos with facts beside them, read these, and return the keys of the set of them."""
    from builders.album.steps import refresh_tables
    from querytruth.sample_album.album_files import write_sample_photos

    facts = out / "album" / "facts.csv"
    with terminal.reported_run():
        write_sample_photos(out / "photos", album_images)
        _, events = refresh_tables(out / "photos", facts, albums=True)
    return [f"images={out / 'photos'}", f"annotations={facts}", f"facts.events={events}"]


def _run_generated_stages(out: Path) -> list[str]:
    """Run the stages of the generated set, and return the keys of the set. A transcript replaces the model, prepared
    answers the person, and the album's descriptions the web."""
    from builders.generated.collect_stage import run_collect_stage
    from builders.generated.stages import run_objects_stage, run_topics_stage
    from flows.definition_loader import load_definition
    from querytruth.backends.steps import BuildRun, active_run
    from querytruth.sample_album.album_files import SAMPLE_DEFINITIONS_FOLDER, fill_in_answers

    places = [
        f"topics.options.replies={SAMPLE_DEFINITIONS_FOLDER / 'transcript.jsonl'}",
        f"topics.samples={SAMPLE_DEFINITIONS_FOLDER / 'topics.yaml'}",
        f"collect.options.index={out / 'album' / 'descriptions.csv'}",
        f"collect.options.images={out / 'album' / 'images'}",
    ]
    overrides = [*places, f"out={out / 'datasets'}"]
    definition: Any = load_definition(SAMPLE_DEFINITIONS_FOLDER / "generated.yaml", overrides, "generated")
    with active_run(BuildRun()):
        for run_stage in (run_topics_stage, run_objects_stage):
            result = run_stage(definition, "generated.yaml")
            terminal.say(f"{result.stage} from a transcript: {result.health.summary_line}")
            terminal.say(f"  report: {result.page}")
            answered_rows = fill_in_answers(result.file, result.stage)
            answer_note = f"  {answered_rows} rows of {result.file} answered as a person might answer, the rest kept"
            terminal.say(answer_note)
        run_collect_stage(definition, "generated.yaml")
    return places


def evaluate_baselines(sets: Mapping[Path, Path | None]) -> list[Path]:
    """Evaluate the baselines on versions of sets, print a table of ndcg@10, and return the written pages: that of
    the lexical baseline per set. `sets`: the CSV with texts of the images by version, or None where the set has
    texts."""
    from flows.evaluation import evaluate_systems
    from querytruth.cli.result_tables import describe_traffic, show_metric_by_set
    from querytruth.evaluation.judged_sets import load_judged_set
    from querytruth.evaluation.requests import EvaluationOptions
    from querytruth.evaluation.systems import BASELINES, make_baseline

    results: list[StoredResult] = []
    for path, texts in sets.items():
        judged = load_judged_set(path)
        for name in BASELINES:
            options = EvaluationOptions(page=name == "lexical")
            results += evaluate_systems(judged, [make_baseline(name, texts=texts)], ("text_to_image",), options)
    show_metric_by_set([result.scored.result for result in results], "ndcg@10")
    for result in results:
        if result.page is not None and (traffic := describe_traffic(result.scored.result)):
            terminal.say(f"{result.scored.result.set['name']}: {traffic}")
    return [result.page for result in results if result.page is not None]


def _build_sample_set(kind: str, overrides: list[str], out: Path, prefect: bool, definition_name: str = "") -> bool:
    """Build and verify a set of the album, and return whether it is intact. The definition has the name of the kind, if
    no other one is given."""
    from flows.requests import BuildRequest
    from querytruth.cli.build_commands import run_build
    from querytruth.cli.build_output import show_build_result
    from querytruth.sample_album.album_files import SAMPLE_DEFINITIONS_FOLDER
    from querytruth.sets.set_files import verify_set

    definition = SAMPLE_DEFINITIONS_FOLDER / f"{definition_name or kind}.yaml"
    result = run_build(BuildRequest(definition=definition, overrides=overrides, out=out / "datasets"), prefect)
    show_build_result(result)
    problems = list(verify_set(result.path))
    terminal.say(f"verified: {'intact' if not problems else problems[0]}\n")
    return not problems
