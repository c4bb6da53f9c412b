"""Checks a search by golden queries, and writes what people and CI read."""

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from querytruth.backends.files.durable_files import file_sha256, write_page
from querytruth.backends.search_systems import load_system_file
from querytruth.checks import answers, verdicts
from querytruth.checks.golden_file import STAGE, load_golden
from querytruth.errors import UsageError, UserError
from querytruth.evaluation.system_answers import AskOptions
from querytruth.requests import ByPlace, Request, takes_request

CHECK_FILES = ("check.json", "check.md", "check.junit.xml", "check.html")
_PAGE_RESULTS = 10  # of a case, with thumbnails


class CheckRequest(Request):
    """Check whether a search still finds what it must."""

    stage: ClassVar[str] = STAGE

    golden: Annotated[Path, ByPlace("GOLDEN")] = Field(
        description="golden.yaml, or a table of queries and images in the format of import pairs."
    )
    system: Path | None = Field(None, description="Search service, described in YAML; replaces the search of the file.")
    run: Path | None = Field(None, description="Run file; replaces the search of the file.")
    images: Path | None = Field(None, description="Folder that the search indexes; replaces the folder of the file.")
    offline: bool = Field(False, description="Use the recorded answers; make no connections.")
    update: bool = Field(False, description="Write the ranks to the lock file.")
    strict: bool = Field(False, description="Fail if a known failure is fixed.")
    report: Path | None = Field(None, description=f"Write {', '.join(CHECK_FILES)} to this folder.")
    page_language: Literal["en", "zh"] = Field("en", description="Language of the page.")


def run_check(request: CheckRequest) -> verdicts.CheckReport:
    """Check a search by golden queries. The report has a case per query, with its status and ranks, and one per floor;
    `failures` are those that fail it. Raises UserError."""
    path, folder = request.golden, request.report
    for name in CHECK_FILES if folder else ():  # an earlier check may have left them
        (folder or path).joinpath(name).unlink(missing_ok=True)
    try:
        given = {name: getattr(request, name) for name in ("system", "run", "images") if getattr(request, name)}
        golden = load_golden(path, given)
        described = load_system_file(golden.system) if golden.system else None
        before, fingerprint = verdicts.read_lock(path.with_suffix(".lock"))
    except UserError as error:
        raise UsageError(error.item, error.reason, error.next_step, error.stage) from None
    if described is not None:
        options = AskOptions(is_offline=request.offline, is_refreshed=not request.offline)
        answered = answers.ask_cases(golden, described, path.with_suffix(".answers.json"), options)
        name, ids, system = described.name, described.system.options.ids, described.system.identity.as_record()
    else:
        assert golden.run is not None
        answered, name, ids = answers.read_run_answers(golden, golden.run), golden.run.name, "image_id"
        system = {"sha256": file_sha256(golden.run)[0]}
    answered = answers.match_answers(answered, golden.images, ids, name)
    cases = [
        verdicts.judge_case(case, case.within or golden.within, answer, before.get(case.query, {}))
        for case, answer in zip(golden.cases, answered, strict=True)
    ]
    digest = hashlib.sha256(json.dumps(system, sort_keys=True).encode()).hexdigest()[:16]
    notes = [*verdicts.list_notes(cases)]
    notes += ["the lock file belongs to another search"] if fingerprint not in ("", digest) else []
    cases += verdicts.check_floors(golden.floors, cases)
    day = datetime.now(UTC).date().isoformat()
    report = verdicts.CheckReport(path.name, name, digest, day, cases, notes, request.strict)
    if request.update:
        verdicts.write_lock(path.with_suffix(".lock"), report)
    if folder is not None:
        _write_reports(report, golden.images, folder, request.page_language)
    return report


check = takes_request(CheckRequest, "check")(run_check)


def _write_reports(report: verdicts.CheckReport, root: Path, folder: Path, language: str) -> None:
    from querytruth.backends.images.rendering import make_thumbnails
    from querytruth.review.page_parts import PAGE_TEXTS, embed_jpeg, pages_in, render_template

    shown = {one.image for case in report.cases for one in case.ranks}
    shown |= {hit.id for case in report.cases for hit in case.answer.hits[:_PAGE_RESULTS]}
    files = {name: str(root / name) for name in sorted(shown) if not name.startswith(answers.NO_IMAGE)}
    thumbnails = {name: embed_jpeg(jpeg) for name, jpeg in make_thumbnails(files).items()} if files else {}
    parts = {"report": report, "thumbnails": thumbnails, "t": PAGE_TEXTS["check"][language], "most": _PAGE_RESULTS}
    with pages_in(language):
        texts = [json.dumps(report.to_json(), ensure_ascii=False, indent=2)]
        texts += [render_template(name, **parts, no_image=answers.NO_IMAGE) for name in CHECK_FILES[1:]]
    for name, text in zip(CHECK_FILES, texts, strict=True):
        write_page(folder / name, text, "or give another --report")
