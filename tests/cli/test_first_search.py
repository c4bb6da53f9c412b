"""From "my search is at this URL" to a report, as docs/systems.md says, with the mistakes that one makes on the way."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pandas as pd
import pytest

from querytruth.backends.id_patterns import find_pattern
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
    assert 'lists in the answer: data."page-1" (photo, match), data.facets (colour)' in told
    file.write_text(file.read_text().replace("results: hits", "results: 'data.\"page-1\"'"))
    file.write_text(file.read_text().replace("id: document.file", "id: photo.name"))
    shown, _ = run(*trial)
    assert "0 match nothing in small" in shown, "a guess that the evaluation makes, too"
    assert "4 of the 4 ids that do not match image_id have one form: write ids: file_name" in " ".join(shown.split())
    file.write_text(file.read_text() + "ids: file_name\nscore: match\n")
    assert "0 match nothing in small" in run(*trial)[0]
    result = json.loads(run("evaluate", "small", "--out", "sets", "--system", "my-search.yaml", "--json")[0])[
        "results"
    ][0]
    assert result["counts"]["search_system"]["answers"] == 4
    assert (tmp_path / "sets/small/evaluations/v1/my-search/report.html").is_file()


def make_search(folder: Path, entry: Callable[[str], dict[str, object]]) -> Loopback:
    """A search that answers with an entry for each file name of the small set."""
    names = publish_small_set(folder, small_tables(graded=False)).tables.images["file_name"].tolist()
    return Loopback(lambda _request: CannedResponse({"hits": [entry(name) for name in names]}))


def stem(name: str) -> str:
    return name.rpartition("/")[2].removesuffix(".jpg")


IDS = {
    'ids: "photo:{stem}.webp"': lambda name: f"photo:{stem(name)}.webp",
    'ids: "s3://bucket/thumbs/{file_stem}_small.png"': lambda name: (
        f"s3://bucket/thumbs/{name.removesuffix('.jpg')}_small.png"
    ),
    'ids: "asset-{name}"': lambda name: f"asset-{quote(name.rpartition('/')[2])}",
    'ids: "thumbs/{file_stem}_300.webp"': lambda name: f"thumbs/{quote(name.removesuffix('.jpg'))}_300.webp",
}


@pytest.mark.parametrize("line", IDS)
def test_a_trial_proposes_the_line_that_maps_ids_of_another_form(run: Run, tmp_path: Path, line: str) -> None:
    server = make_search(tmp_path, lambda name: {"id": IDS[line](name)})
    file = tmp_path / "my-search.yaml"
    file.write_text(WRITTEN.format(url=server.url).replace("document.file", "id"))
    trial = ("search", "--trial", "--system", "my-search.yaml", "small", "a dog, wet", "--out", "sets")
    shown = " ".join(run(*trial)[0].split())
    assert "4 match nothing in small" in shown and f"write {line}" in shown
    _, told = run("evaluate", "small", "--out", "sets", "--system", "my-search.yaml", code=1)
    assert f"Next: write {line}" in told, "an evaluation of which nothing maps is no row of zeros"
    file.write_text(file.read_text() + line + "\n")
    assert "0 match nothing in small" in run(*trial)[0]
    answers = json.loads(run("evaluate", "small", "--out", "sets", "--system", "my-search.yaml", "--json")[0])
    assert answers["results"][0]["counts"]["search_system"]["unmapped_results"] == 0
    server.close()


def test_a_trial_names_the_paths_that_the_answer_has(run: Run, tmp_path: Path) -> None:
    server = make_search(tmp_path, lambda name: {"doc": {"name": name, "page": 3}, "meta": {"match score": 0.5}})
    file = tmp_path / "my-search.yaml"
    file.write_text(WRITTEN.format(url=server.url) + "score: match.score\nids: file_name\n")
    trial = ("search", "--trial", "--system", "my-search.yaml", "small", "a dog, wet", "--out", "sets")
    shown = " ".join(run(*trial)[0].split())
    assert "id: document.file matches nothing in a result; the result has doc.name (" in shown
    assert "score: match.score matches nothing in a result; the result has doc.page ('3'), meta.\"match sc" in shown
    assert run(*trial[:4], "a dog, wet")[0].count("matches nothing") == 2, "a trial without a set says it, too"
    server.close()


def test_a_pattern_with_an_unknown_part_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(WRITTEN.format(url="http://127.0.0.1:9") + 'ids: "photo:{nme}"\n')
    _, told = run("search", "--trial", "--system", "s.yaml", "a dog", code=1)
    assert "{nme}" in told and "{stem}" in told and "Traceback" not in told


def test_the_pattern_that_explains_all_ids_goes_before_one_that_explains_half() -> None:
    """Half of the ids lie in a folder whose name is percent-encoded, and look like a prefix."""
    names = [f"my holiday/{n}.jpg" for n in range(6)] + [f"2021/{n}.jpg" for n in range(6, 10)]
    images = pd.DataFrame({"image_id": [f"img_{n}" for n in range(10)], "file_name": names})
    ids = [f"thumbs/{quote(name.removesuffix('.jpg'))}_300.webp" for name in names]
    assert find_pattern(ids, images) == ("thumbs/{file_stem}_300.webp", 10)
    assert find_pattern(["nothing", "like", "it"], images) is None


def test_ids_of_which_half_map_name_the_line_for_the_file(run: Run, tmp_path: Path) -> None:
    """Two of four lie under a prefix that the file names."""
    server = make_search(tmp_path, lambda name: {"id": f"{'a' if 'dog' in name or 'cat' in name else 'bb'}:{name}"})
    file = tmp_path / "my-search.yaml"
    file.write_text(WRITTEN.format(url=server.url).replace("document.file", "id") + 'ids: "a:{file_name}"\n')
    _, told = run("evaluate", "small", "--out", "sets", "--system", "my-search.yaml", code=1)
    assert 'Next: write ids: "bb:{file_name}" into the file of the search' in told and "unmapped:" not in told[-80:]
    server.close()
