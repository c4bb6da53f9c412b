"""`querytruth search`: one query on a set, each result relevant, not relevant or not judged."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.loopback import CannedResponse, Loopback
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
