"""The links on Prefect's page to the pages that a run leaves."""

from __future__ import annotations

from pathlib import Path

from prefect.artifacts import create_link_artifact

from flows.prefect_runs.progress import artifact_key, call_server_if_available


def create_page_link(page: Path, artifact_name: str, about: str) -> None:
    """A link to a page; it opens on the machine that wrote it."""
    link, description = page.absolute().as_uri(), f"The page of {about}, one file on the machine that ran this: {page}"
    call_server_if_available(
        lambda: create_link_artifact(link, about, artifact_key(artifact_name, "page"), description)
    )
