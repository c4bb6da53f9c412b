"""From "my search is at this URL" to a report, as docs/systems.md says, with the mistakes that one makes on the way."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.loopback import CannedResponse, Loopback, ReceivedRequest
from tests.small_sets import publish_small_set, small_tables

WRITTEN = """system: http
url: {url}/find
query: {{q: "{{query}}", size: "{{k}}"}}
results: hits
id: document.file
"""


@pytest.fixture
def search(tmp_path: Path) -> Iterator[Loopback]:
    """A search whose answers have a form of their own; its ids are file names."""
    stored = publish_small_set(tmp_path, small_tables(graded=False))
    names = stored.tables.images["file_name"].tolist()

    def answer(_request: ReceivedRequest) -> CannedResponse:
        found = [{"photo": {"name": name}, "match": 1 / (n + 1)} for n, name in enumerate(names)]
        return CannedResponse({"took": 3, "data": {"page-1": found, "facets": [{"colour": "red"}]}})

    server = Loopback(answer)
    yield server
    server.close()


@pytest.mark.thorough
def test_a_trial_says_what_to_write(run: Run, search: Loopback, tmp_path: Path) -> None:
    file = tmp_path / "my-search.yaml"
    file.write_text(WRITTEN.format(url=search.url))
    trial = ("search", "--trial", "--system", "my-search.yaml", "small", "a dog, wet", "--out", "sets")
    _, told = run(*trial, code=1)
    assert 'lists of the answer: data."page-1" (photo, match), data.facets (colour)' in told
    file.write_text(file.read_text().replace("results: hits", "results: 'data.\"page-1\"'"))
    file.write_text(file.read_text().replace("id: document.file", "id: photo.name"))
    shown, _ = run(*trial)
    assert "4 map to nothing of small" in shown
    assert "no id is one of ids: image_id; they are of the column file_name: write ids: file_name" in " ".join(
        shown.split()
    )
    file.write_text(file.read_text() + "ids: file_name\nscore: match\n")
    shown, _ = run(*trial, "--page", "try.html")
    assert "0 map to nothing of small" in shown and (tmp_path / "try.html").is_file()
    result = json.loads(run("evaluate", "small", "--out", "sets", "--system", "my-search.yaml", "--json")[0])[
        "results"
    ][0]
    assert result["counts"]["search_system"]["answers"] == 4
    assert (tmp_path / "sets/small/evaluations/v1/my-search/report.html").is_file()
