"""`querytruth search`: one query on a set, each result relevant, not relevant or not judged."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pandas as pd
import pytest

from querytruth.backends.id_patterns import find_pattern
from tests.cli.conftest import Run
from tests.loopback import CannedResponse, Loopback, ReceivedRequest
from tests.small_sets import image_id_of, publish_small_set, query_id_of, small_tables
from tests.tiny_dual_encoders import save_dual_encoder

SMALL = ["small", "--out", "sets"]


@pytest.fixture
def small(tmp_path: Path) -> Path:
    publish_small_set(tmp_path, small_tables())
    ranked = enumerate(["tree", "dog", "cat"])
    lines = [f"{query_id_of('dog')} Q0 {image_id_of(name)} {rank} {9 - rank} t" for rank, name in ranked]
    tmp_path.joinpath("my.trec").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_results_of_a_run_are_marked_by_the_sets_judgments(small: Path, run: Run) -> None:
    printed, _ = run("search", *SMALL, "A dog, wet", "--run", "my.trec", "--json")
    found = json.loads(printed)
    assert [(hit["image_id"], hit["grade"]) for hit in found["hits"]] == [
        (image_id_of("tree"), None),
        (image_id_of("dog"), 2),
        (image_id_of("cat"), 0),
    ]
    assert found["relevant_count"] == 2 and [row["image_id"] for row in found["missed"]] == [image_id_of("beach")]
    page = (small / "search.html").read_text()
    assert [page.count(f'<li class="{kind}">') for kind in ("relevant", "wrong", "unjudged")] == [2, 1, 1]
    assert "1 of 2 relevant images are among these 3 results; 1 are not judged." in page
    assert page.count("data:image/jpeg") == 4
    assert [hit["id"] for hit in found["hits"]] == [f"holiday/{one} 1.jpg" for one in ("tree", "dog", "cat")]


def test_the_page_is_in_chinese_where_that_is_asked(small: Path, run: Run) -> None:
    run("search", *SMALL, "a dog, wet", "--run", "my.trec", "--page-language", "zh", "--page", "pages/zh.html")
    page = (small / "pages/zh.html").read_text()
    assert "2 张相关图片中有 1 张在这 3 个结果里；1 个结果未判断。" in page and "不相关" in page


def test_a_service_is_asked_once_and_its_unknown_ids_are_no_images_of_the_set(small: Path, run: Run) -> None:
    answer = CannedResponse(json.dumps({"results": [{"name": "holiday/beach 1.jpg"}, {"name": "gone.jpg"}]}))
    service = Loopback(lambda _request: answer)
    options = {
        "system": "http",
        "url": f"{service.url}/?q={{query}}",
        "ids": "file_name",
        "id": "name",
        "results": "results",
    }
    (small / "mine.yaml").write_text(json.dumps(options))
    printed, _ = run("search", *SMALL, "沙滩上的狗", "--system", "mine.yaml", "--json")
    service.close()
    found = [(hit["image_id"], hit["grade"]) for hit in json.loads(printed)["hits"]]
    assert found == [(image_id_of("beach"), 2), ("", None)]
    assert "not an image of the set" in (small / "search.html").read_text()


def test_mistakes_are_one_line(small: Path, run: Run) -> None:
    _, said = run("search", *SMALL, "a dog, wett", "--run", "my.trec", code=1)
    assert "did you mean 'a dog, wet'" in said
    _, said = run("search", *SMALL, "沙滩上的狗", "--run", "my.trec", code=1)
    assert "has no results" in said
    _, said = run("search", *SMALL, "a dog, wet", code=2)
    assert "give one of model, system, run" in said
    _, said = run("search", *SMALL, "a dog, wet", "--run", "my.trec", "--page-language", "english", code=2)
    assert "choose from en, zh" in said


@pytest.mark.thorough
def test_a_model_answers_a_query_that_the_set_does_not_have(small: Path, run: Run) -> None:
    model = save_dual_encoder("clip", small / "clip")
    printed, _ = run("search", *SMALL, "a boat", "--model", model, "--json")
    found = json.loads(printed)
    assert not found["is_query"] and {hit["grade"] for hit in found["hits"]} == {None}
    assert {hit["id"] for hit in found["hits"]} <= {f"holiday/{name} 1.jpg" for name in ("dog", "beach", "cat", "tree")}
    assert "nothing is judged" in (small / "search.html").read_text()


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
    result = run.json("evaluate", "small", "--out", "sets", "--system", "my-search.yaml")["results"][0]
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
    answers = run.json("evaluate", "small", "--out", "sets", "--system", "my-search.yaml")
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
