"""`review export-csv`, `review import-csv` and `apply` as they are typed: exit codes, one-line errors, and a log
that only a whole import touches."""

import csv
import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import openpyxl
import pytest

from flows.review_targets import suggest_next_command
from querytruth.sets import set_files
from querytruth.sets.decision_log import append_decisions, read_decisions
from querytruth.sets.decision_records import QueryDecision
from querytruth.sets.set_files import read_set
from tests.cli.conftest import Run
from tests.review.pool_tables import object_table, topic_table, write_export
from tests.review.server.pages import open_client
from tests.small_sets import image_id_of, publish_small_set, query_id_of, small_tables

Make = Callable[..., Path]


@pytest.fixture
def pets(make_world: Make, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A published set, handed out for review; the folder of sets."""
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    run("build", "precision", make_world("pets"), "--in-process")
    out = tmp_path / "sets"
    told, _ = run("review", "export-csv", "pets", "--out", out, "--to", tmp_path / "review", "--judgments", 12)
    assert "review import-csv pets FILE --dry-run" in told
    return out


def change(path: Path, answers: dict[int, dict[str, str]]) -> list[str]:
    """Fill cells in by row number; gives back the row ids."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.reader(file))
    for number, cells in answers.items():
        for name, value in cells.items():
            rows[number - 1][rows[0].index(name)] = value
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    path.write_bytes(text.getvalue().encode("utf-8-sig"))
    return [rows[number - 1][0] for number in answers]


def test_an_xlsx_with_thumbnails_is_read_as_the_csv_beside_it(tmp_path: Path, run: Run) -> None:
    publish_small_set(tmp_path, small_tables())
    sets = tmp_path / "sets"
    words = ("review", "export-csv", "small", "--out", sets, "--to", tmp_path / "review", "--xlsx")
    run.patch.setenv("COLUMNS", "200")
    assert "queries.xlsx" in run(*words)[0]
    for view, column, shown in (("queries", "text", 3), ("judgments", "image_id", 5)):  # nothing fits the query -1
        file = tmp_path / "review" / f"{view}.xlsx"
        sheet = (book := openpyxl.load_workbook(file)).active
        assert len(sheet._images) == shown
        decision, name = (
            next(cell.column for cell in sheet[1] if cell.value == header) for header in ("decision", column)
        )
        sheet.cell(2, decision).value = "drop"
        book.save(file)
        taken = run.json("review", "import-csv", "small", file, "--out", sets, "--dry-run")
        ((kind, value),) = [(one["decision"], one[column]) for one in taken["decisions"]]
        assert kind == "drop" and sheet.cell(2, name).value.lstrip("'") == value


def test_a_file_with_one_bad_cell_is_refused_whole(pets: Path, tmp_path: Path, run: Run) -> None:
    file = tmp_path / "review" / "judgments.csv"
    change(file, {3: {"decision": "0"}, 4: {"decision": "9"}, 5: {"text": "other"}})
    printed, told = run("review", "import-csv", "pets", file, "--out", pets, code=1)
    assert not printed and f"{file} row 4, decision: '9' is not one of keep, drop, 0, 1, 2" in told
    assert "row 5, text: 'other' was exported as " in told
    next_step = "Next: fix those cells, or accept them with --allow-changed"
    assert f"2 problems, listed above; no decision was imported. {next_step}" in told
    assert read_decisions(pets / "pets", QueryDecision) == []


def test_many_problems_are_counted_and_the_first_shown(pets: Path, tmp_path: Path, run: Run) -> None:
    file = tmp_path / "review" / "queries.csv"
    text = file.read_text("utf-8-sig").splitlines()
    for row in range(40):
        text.append(f"q_new{row}" + "," * 12)
    file.write_text("\r\n".join(text), "utf-8-sig")
    told = run.error("review", "import-csv", "pets", file, "--out", pets)
    assert told.count(f"{file} row ") == 20 and "40 problems, listed above (20 more)" in told
    run("review", "import-csv", "pets", file, "--out", pets, "--allow-unknown")


def test_decisions_become_the_next_version_and_their_second_application_nothing(
    pets: Path, tmp_path: Path, run: Run
) -> None:
    queries, judgments = tmp_path / "review" / "queries.csv", tmp_path / "review" / "judgments.csv"
    (edited,) = change(queries, {3: {"new_text": "新的词"}})
    change(judgments, {4: {"decision": "keep"}})
    for file in (queries, judgments):
        run("review", "import-csv", "pets", file, "--out", pets)
    applied = run.json("apply", "pets", "--out", pets)
    assert applied["published"] and applied["counts"]["by_judge"]["human"] == 2 and applied["shared"] == 1, (
        "in Chinese and in English"
    )
    assert not run.json("apply", "pets", "--out", pets)["published"]
    take = ("review", "import-csv", "pets", queries, "--out", pets)
    assert "is an export of pets/v1, but the set is at pets/v2" in run.error(*take)
    assert len(read_decisions(pets / "pets", QueryDecision)) == 2
    run(*take, "--allow-other-export")
    assert len(read_decisions(pets / "pets", QueryDecision)) == 2, "taken once, however often given"
    run("review", "import-csv", "pets/v1", judgments, "--out", pets, "--dry-run")  # v1 is asked for
    assert "is not the newest version" in run.error("apply", "pets/v1", "--out", pets)
    assert edited


def test_a_wrong_call_ends_with_two(pets: Path, tmp_path: Path, run: Run) -> None:
    run.error("review", "import-csv", "pets", code=2)
    run.error("review", "import-csv", "pets", "a.csv", "--allow-everything", code=2)
    run.error("review", "export-csv", "pets", "--out", pets, "--judgments", -1, code=2)
    (tmp_path / "file").write_text("")
    assert (
        run.error("review", "export-csv", "pets", "--out", pets, "--to", tmp_path / "file" / "x").count("error ") == 1
    )
    run.error("review", "import-csv", "none", tmp_path / "review" / "queries.csv", "--out", pets)


def test_what_is_no_other_command_is_the_name_of_a_set(pets: Path, run: Run) -> None:
    told = run.error("review", "nothing-here", "--out", pets)
    assert "choose from pets" in told and run.error("review", "--no-open", "nothing-here", "--out", pets) == told
    assert "import-csv" in run("review", "--help")[0]
    run.error("review", "pets", "--out", pets, "--port", "70000", code=2)
    run.error("review", "pets", "--out", pets, "--colour", "red", code=2)


@pytest.mark.thorough
def test_after_an_apply_the_difference_is_shown(pets: Path, tmp_path: Path, run: Run) -> None:
    change(tmp_path / "review" / "queries.csv", {3: {"new_text": "新的词"}})
    run("review", "import-csv", "pets", tmp_path / "review" / "queries.csv", "--out", pets)
    assert "Queries changed: 1" in run("apply", "pets", "--out", pets)[0]
    assert "Queries changed" not in run("apply", "pets", "--out", pets)[0]


def test_judgments_of_others_are_shown_before_they_are_taken(pets: Path, tmp_path: Path, run: Run) -> None:
    stored = set_files.read_set(set_files.find_set("pets", pets))
    rows = [f"{text},{name},0" for text, name in zip(stored.tables.queries["text"][:1], ["nothing.jpg"], strict=True)]
    (tmp_path / "judged.csv").write_text("\n".join(["query,image,grade", *rows]), "utf-8")
    take = ("review", "import-qrels", "pets", tmp_path / "judged.csv", "--out", pets)
    assert "unknown image 'nothing.jpg'" in run.error(*take)

    image = stored.tables.images["image_id"].iloc[0]
    (tmp_path / "judged.csv").write_text("\n".join(["query,image,grade", *rows]).replace("nothing.jpg", image), "utf-8")
    told, _ = run(*take, "--dry-run")

    assert "1 judgment grade" in told and "without --dry-run" in told
    assert not read_decisions(pets / "pets", QueryDecision)
    run(*take, "--json")
    assert [one.image_id for one in read_decisions(pets / "pets", QueryDecision)] == [image]


def test_a_table_keeps_no_names_so_a_reviewer_is_a_wrong_call(run: Run, tmp_path: Path) -> None:
    table = write_export(tmp_path, "topics", topic_table())
    told = run.error("review", table, "--reviewer", "lin", "--no-open", code=2)
    assert "it records no names" in told and "--reviewer" in told


def test_a_table_that_lost_its_encoding_is_to_be_saved_again_for_the_page_has_no_option(
    run: Run, tmp_path: Path
) -> None:
    table = write_export(tmp_path, "topics", topic_table())
    table.write_bytes(table.read_bytes().decode("utf-8-sig").encode("gb18030"))
    told = run.error("review", table, "--no-open")
    assert told.endswith("Next: save it as CSV UTF-8") and "--encoding" not in told


def test_a_definition_names_the_tables_and_the_set_that_there_are(run: Run, tmp_path: Path) -> None:
    definition = tmp_path / "g.yaml"
    definition.write_text(f"name: tiny\nkind: generated\nout: {tmp_path}\n")
    said = f"error {definition} (review): is a definition, not a set. Next: build tiny first"
    assert run.error("review", definition, "--no-open") == said
    tables = [write_export(tmp_path, "objects", object_table()), write_export(tmp_path, "topics", topic_table())]
    next_step = f"Next: querytruth review {tables[0]} or querytruth review {tables[1]}"
    assert run.error("review", definition, "--no-open").endswith(next_step)
    (tmp_path / "tiny" / "v3").mkdir()
    (tmp_path / "tiny" / "v3" / "manifest.json").write_text("{}")
    next_step = f"Next: querytruth review {tmp_path / 'tiny'} or querytruth review {tables[0]}"
    assert next_step in run.error("review", definition, "--no-open")


@pytest.mark.parametrize("text", ["", "- a\n", "name: [1]\n", "name: {\n"])
def test_a_file_that_names_no_set_is_one_line_too(run: Run, tmp_path: Path, text: str) -> None:
    (tmp_path / "g.yml").write_text(text)
    assert "is a definition, not a set. Next: give a set's name" in run.error("review", tmp_path / "g.yml", "--no-open")
    assert "has no published version" in run.error("review", tmp_path / "missing.yaml", "--no-open")


def test_a_gallery_goes_on_with_captions_or_with_what_was_said_of_images() -> None:
    assert suggest_next_command("album", ["Captions", "Decisions"]) == "querytruth build recall DEFINITION"
    assert suggest_next_command("album", ["Captions", "Duplicates", "Decisions"]).endswith(
        "images: querytruth build gallery DEFINITION"
    )


def answer(image: str, relevance: int, reviewer: str, second: int, view: str = "audit") -> QueryDecision:
    at = f"2026-01-01T00:00:{second:02}+00:00"
    return QueryDecision(
        query_id_of("dog"), "a dog, wet", "grade", image_id_of(image), relevance=relevance, reviewer=reviewer,
        view=view, source="a_1", at=at,
    )  # fmt: skip


def grades_of(path: Path) -> dict[str, int]:
    qrels = read_set(path).tables.qrels
    mine = qrels[qrels["query_id"] == query_id_of("dog")]
    return dict(zip(mine["image_id"], mine["relevance"].astype(int), strict=True))


def test_a_disputed_pair_keeps_its_grade_and_is_named_until_a_third_answers(tmp_path: Path, run: Run) -> None:
    folder = publish_small_set(tmp_path, small_tables()).path.parent
    append_decisions(folder, [answer("beach", 0, "lin", 1), answer("beach", 2, "kim", 2), answer("cat", 1, "lin", 3)])
    _, said = run("apply", "small", "--out", "sets")
    assert "1 pair of an audit is left out" in said and image_id_of("beach") in said
    grades = grades_of(folder / "v2")
    assert grades[image_id_of("beach")] == 1 and grades[image_id_of("cat")] == 1
    append_decisions(folder, [answer("beach", 0, "bo", 4)])
    _, said = run("apply", "small", "--out", "sets")
    assert "left out" not in said and grades_of(folder / "v3")[image_id_of("beach")] == 0


def test_other_differences_are_counted_and_the_last_decision_holds(tmp_path: Path, run: Run) -> None:
    folder = publish_small_set(tmp_path, small_tables()).path.parent
    append_decisions(folder, [answer("beach", 0, "lin", 1, "pairs"), answer("beach", 2, "kim", 2, "pairs")])
    printed, _ = run("apply", "small", "--out", "sets", "--json")
    summary = json.loads(printed)
    assert (summary["disputed"], summary["disagreements"]) == ([], 1)
    assert grades_of(folder / "v2")[image_id_of("beach")] == 2


def test_the_review_page_leaves_the_same_answers_out(tmp_path: Path) -> None:
    tables = small_tables()
    alike = tables.queries.assign(labels=[["dog"]] * len(tables.queries))  # an answer holds for the other queries, too
    stored = publish_small_set(tmp_path, replace(tables, queries=alike))
    append_decisions(stored.path.parent, [answer("beach", 0, "lin", 1), answer("beach", 2, "kim", 2)])
    page = open_client(stored)
    assert "more judgments follow" not in page.get("/decisions").text
    append_decisions(stored.path.parent, [answer("beach", 0, "bo", 4)])
    assert "3 more judgments follow" in page.get("/decisions").text
