"""Commands and functions on sets in object storage."""

import json
import shutil
from pathlib import Path

import pytest

import querytruth as qt
from querytruth.sets.decision_log import DecisionLog
from querytruth.sets.decision_records import QueryDecision
from tests.cli.conftest import Run
from tests.object_service import SECRET_KEY, ObjectService
from tests.review.server.pages import open_client
from tests.small_sets import publish_small_set, small_tables


@pytest.fixture
def published(run: Run, tmp_path: Path, object_service: ObjectService) -> str:
    publish_small_set(tmp_path, small_tables())
    out, _ = run("publish", "small", "--with-places", "--to", object_service.url, "--out", "sets")
    assert out.startswith(f"{object_service.url}/small/v1: published; 12 files sent")
    return f"{object_service.url}/small"


@pytest.mark.thorough
def test_commands_that_read_a_set_take_its_url(run: Run, published: str, object_service: ObjectService) -> None:
    before = {key: object_service.ask("GET", key) for key in object_service.list_keys()}
    again = run.json("publish", "small", "--with-places", "--to", object_service.url, "--out", "sets")
    assert again == {"url": f"{published}/v1", "is_new": False, "sent_files": 0, "sent_bytes": 0}
    assert f"{published}/v1: intact, every object read again" in run("verify", f"{published}/v1")[0]
    assert f"small/v1 precision set in {published}/v1" in run("show", published)[0]
    assert run("lint", published, "--json", code=1)[0] == run("lint", "sets/small", "--json", code=1)[0]
    assert run.json("diff", "sets/small", published)["comparable"]
    for words in (["sets/small"], [published], ["small", "--out", object_service.url]):
        run("evaluate", *words, "--baseline", "lexical", "--report", f"report{len(words)}{words[0][:2]}")
    results = [json.loads(file.read_text()) for file in Path().glob("report*/result.json")]
    first, *others = [{**result, "envelope": None} for result in results]
    assert others == [first, first]
    run("evaluate", published, "--baseline", "oracle")
    assert Path("datasets/small/evaluations/v1").is_dir()  # where the set would be, and not in the cache
    run("export", published, "csv", "exported")
    assert {key: object_service.ask("GET", key) for key in object_service.list_keys()} == before


@pytest.mark.thorough
def test_errors_are_one_line_without_secrets(
    run: Run, published: str, object_service: ObjectService, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = next(key for key in object_service.list_keys() if "/objects/" in key)
    data = object_service.ask("GET", image)
    object_service.ask("PUT", image, data[:-1] + bytes([data[-1] ^ 1]))
    out, _ = run("verify", published, code=1)
    assert out.count(": differs from the manifest") == 1 and f"{published}/v1: 1 problems" in out
    for url in ("s3://me:very-secret@bucket/small", "s3://very-secret@bucket/small"):
        for words in (("show", url), ("publish", "small", "--out", "sets", "--to", url)):
            assert "very-secret" not in "".join(run(*words, code=1))
    assert "is not the address of a folder in a bucket" in run.error(
        "publish", "small", "--with-places", "--out", "sets", "--to", "x"
    )
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    err = run.error("show", published)
    assert "check AWS_ACCESS_KEY_ID" in err and SECRET_KEY not in err and "Traceback" not in err


@pytest.mark.thorough
def test_a_fetched_set_is_worked_on_and_published_again(
    run: Run, published: str, object_service: ObjectService
) -> None:
    assert "datasets/small/v1: fetched" in run("fetch", published)[0]
    assert "already there" in run("fetch", f"{published}/v1")[0]
    assert "intact" in run("verify", "small")[0]
    assert Path("datasets/small/latest").read_text() == "v1\n"
    qt.load("small")
    decide(Path("datasets/small"))
    run("apply", "small")
    assert (
        "small/v2: published" in run("publish", "small", "--with-places", "--no-private", "--to", object_service.url)[0]
    )
    assert "fetched" in run("fetch", published, "--to", "elsewhere")[0]
    assert Path("elsewhere/small/decisions.jsonl").read_bytes() == Path("datasets/small/decisions.jsonl").read_bytes()
    assert "intact" in run("verify", published)[0]
    assert run("lint", "elsewhere/small", "--json")[0] == run("lint", published, "--json")[0]
    Path("third/small").mkdir(parents=True)
    Path("third/small/decisions.jsonl").write_text("{}\n")
    assert "has other decisions than the set" in run.error("fetch", published, "--to", "third")
    assert not Path("third/small/v2").exists()


def decide(folder: Path) -> None:
    """Drops the first query, as a person on the page does."""
    query_id = qt.load(folder).queries["query_id"].iloc[0]
    text = qt.load(folder).queries["text"].iloc[0]
    decision = QueryDecision(view="queries", decision="drop", query_id=query_id, text=text, reviewer="lin")
    DecisionLog(folder, QueryDecision).append([decision])


@pytest.mark.thorough
def test_nothing_is_written_beside_a_copy(run: Run, published: str) -> None:
    copy = qt.load(published).path
    for write in (lambda: decide(copy.parent), lambda: qt.load(copy).apply()):
        with pytest.raises(qt.UserError, match="which is read-only for this command"):
            write()
    for words in (
        ("apply", published),
        ("review", "import-csv", published, "x.csv"),
    ):
        assert "run querytruth fetch" in run.error(*words)
    assert not (copy.parent / "decisions.jsonl").exists()


@pytest.mark.thorough
def test_the_review_page_shows_a_copy_and_takes_no_decision(published: str) -> None:
    stored = qt.load(published).stored
    page = open_client(stored)
    query = stored.tables.queries.set_index("text", drop=False).loc["a dog, wet"]
    shown = page.card(query["query_id"])
    assert shown["images"] and page.get(f"/image/320/{shown['images'][0]['image_id']}").status_code == 200
    answer = page.decide(query["query_id"], query["text"], "drop")
    assert answer.status_code >= 400 and "which is read-only for this command" in answer.json()["error"]
    assert page.card(query["query_id"]) == shown and page.log == []


@pytest.mark.thorough
def test_show_writes_the_page_with_its_images(run: Run, published: str) -> None:
    run("show", "sets/small", "--page", "here.html")
    shutil.rmtree("sets")
    shutil.rmtree("cache", ignore_errors=True)  # the bucket alone has the images
    assert "page written: there.html" in run("show", published, "--page", "there.html")[1]
    here, there = (Path(name).read_bytes() for name in ("here.html", "there.html"))
    assert there.count(b"data:image/jpeg") == here.count(b"data:image/jpeg") > 0
