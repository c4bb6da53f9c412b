"""Writes the page of an audit, one HTML file with thumbnails inside."""

from pathlib import Path
from typing import Any

from backends.contained_paths import contained_path
from backends.durable_files import write_page
from backends.sets.audit_files import REPORT_PAGE_FILE
from backends.sets.set_files import StoredSet
from backends.sets.set_thumbnails import make_set_thumbnails
from review.audit_page import list_shown_images, render_audit_page


def write_audit_page(report: dict[str, Any], folder: Path, stored: StoredSet, language: str) -> Path:
    """Writes report.html into the audit's folder and returns it. `report` is that of report_audit; `stored` the version
    that it is of. Raises UserError where it cannot be written."""
    page = contained_path(folder, REPORT_PAGE_FILE, "write report")
    thumbnails = make_set_thumbnails(stored, list_shown_images(report))
    html = render_audit_page(report, stored.tables.images, stored.manifest, thumbnails, language)
    write_page(page, html, "or leave out the page: --no-page")
    return page
