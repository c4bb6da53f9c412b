"""A decision log that lost its end: whoever reads it notices, and nothing that people decided is undone silently."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from builders.publication import publish_decisions
from flows.definition_loader import parse_definition
from flows.rebuild import rebuild_tables
from flows.review_site import open_review_site
from flows.set_kinds import build_set
from querytruth.backends.steps import BuildRun, active_run
from querytruth.errors import UserError
from querytruth.review.server import create_app
from querytruth.sets.decision_log import append_decisions, find_lost_decisions, verify_decision_logs
from querytruth.sets.decision_records import HumanCaption, QueryDecision
from querytruth.sets.manifest import read_manifest
from querytruth.sets.set_files import StoredSet, read_set
from tests.command_runner import invoke
from tests.review.server.pages import DOOR, HOME, TOKEN
from tests.small_sets import publish_small_set, small_tables

LOG = "decisions.jsonl"


def decide(stored: StoredSet, count: int, decision: str = "keep", at: str = "2026-01-01") -> list[QueryDecision]:
    """One decision per query, each appended by itself."""
    rows = stored.tables.queries.head(count)
    decisions = [
        QueryDecision(row.query_id, row.text, decision, new_text="a cat" if decision == "edit" else "", at=at)
        for row in rows.itertuples()
    ]
    for one in decisions:
        append_decisions(stored.path.parent, [one])
    return decisions


@pytest.fixture
def decided(tmp_path: Path) -> Path:
    """The folder of a set with a second version, in which four decisions are in effect."""
    stored = publish_small_set(tmp_path, small_tables())
    decide(stored, 3)
    decide(stored, 1, "edit", "2026-01-02")
    assert publish_decisions(stored.path).version == 2
    assert len(read_manifest(stored.path.parent / "v2")["decisions"]["in_effect"]) == 4
    return stored.path.parent


def cut_two_lines(log: Path) -> None:
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-2]))


def zero_the_end(log: Path) -> None:
    data = log.read_bytes()
    kept = data.splitlines(keepends=True)
    end = sum(map(len, kept[:-2]))
    log.write_bytes(data[:end] + bytes(len(data) - end))


LOSSES: dict[str, Callable[[Path], object]] = {
    "cut": cut_two_lines,
    "zeroed": zero_the_end,
    "emptied": lambda log: log.write_bytes(b""),
    "deleted": Path.unlink,
}


@pytest.mark.parametrize("lose", LOSSES.values(), ids=LOSSES)
@pytest.mark.thorough
def test_an_apply_a_build_and_a_rebuild_refuse_and_say_which_are_gone(
    decided: Path, lose: Callable[[Path], object]
) -> None:
    lose(decided / LOG)
    before = sorted(path.name for path in decided.iterdir())
    with pytest.raises(UserError, match=r"of the 4 decisions in effect in v2 are missing \(.*--accept-loss"):
        publish_decisions(decided / "v2")
    with pytest.raises(UserError, match=r"of the 4 decisions in effect in v2 are missing"):
        rebuild_tables(decided / "v2")
    assert sorted(path.name for path in decided.iterdir()) == before


@pytest.mark.parametrize("lose", LOSSES.values(), ids=LOSSES)
@pytest.mark.thorough
def test_verify_lint_diff_and_the_review_page_say_it(decided: Path, lose: Callable[[Path], object]) -> None:
    spec = str(decided / "v2")
    assert "intact" in invoke("verify", spec).output
    lose(decided / LOG)
    for command, code in (
        (["verify", spec], 1),
        (["lint", spec, "--json"], 1),
        (["diff", str(decided / "v1"), spec], 0),
    ):
        done = invoke(*command)
        assert "decisions in effect in v2 are missing" in " ".join(done.output.split()), command
        assert done.exit_code == code
    site = open_review_site(read_set(decided / "v2"), "lin")
    assert any("decisions in effect in v2 are missing" in note for note in site.notes)
    client = TestClient(create_app(site.routes, DOOR, site.start_path), base_url=HOME)
    client.get("/", params={"token": TOKEN})
    assert "Removed" in client.get("/decisions").text


def test_a_build_refuses_before_any_work(decided: Path) -> None:
    (decided / LOG).unlink()
    torn = decided / "annotations.json"
    torn.write_text("no JSON: reading it would fail with another error")
    definition = parse_definition(
        {"name": "small", "annotations": str(torn), "out": str(decided.parent)}, "precision", "test"
    )
    with pytest.raises(UserError, match="decisions in effect in v2 are missing"):
        build_set(definition)


def test_what_is_accepted_is_named_in_the_next_version_and_is_no_loss_afterwards(decided: Path) -> None:
    cut_two_lines(decided / LOG)
    stored = publish_decisions
    dropped = read_manifest(decided / "v2")
    first = small_tables().queries.iloc[1]
    append_decisions(decided, [QueryDecision(first["query_id"], first["text"], "drop", at="2026-02-01")])
    with pytest.raises(UserError, match="are missing"):
        stored(decided / "v2")
    with active_run(BuildRun(accept_loss=True)):
        result = stored(decided / "v2")
    assert result.version == 3 and len(dropped["decisions"]["in_effect"]) == 4
    manifest = read_manifest(decided / "v3")
    assert any(
        "was built without lost decisions. decisions.jsonl: 2 of the 4" in one for one in manifest["known_limitations"]
    )
    assert find_lost_decisions(decided / "v3") == []
    stored(decided / "v3")


def test_the_loss_of_an_undo_is_noticed_too(tmp_path: Path) -> None:
    stored = publish_small_set(tmp_path, small_tables())
    folder = stored.path.parent
    (wrong,) = decide(stored, 1, "drop")
    append_decisions(folder, [QueryDecision(wrong.query_id, wrong.text, "undo", undoes=wrong.decision_id)])
    row = stored.tables.queries.iloc[2]
    append_decisions(folder, [QueryDecision(row["query_id"], row["text"], "drop")])
    assert publish_decisions(stored.path).version == 2
    lines = (folder / LOG).read_bytes().splitlines(keepends=True)
    (folder / LOG).write_bytes(lines[0] + lines[2])
    assert "does not continue the log" in str(find_lost_decisions(folder / "v2")[0])
    (folder / LOG).write_bytes(lines[0])
    assert "2 of its 3 lines" in str(find_lost_decisions(folder / "v2")[0])


def test_a_flipped_bit_inside_the_log_stops_an_apply(decided: Path) -> None:
    log = decided / LOG
    log.write_text(log.read_text("utf-8").replace("a cat", "a bat"), "utf-8")
    with pytest.raises(UserError, match="changed"):
        publish_decisions(decided / "v2")


def test_a_set_from_elsewhere_without_its_log_lost_nothing(
    decided: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(decided / "v2", tmp_path / "received" / "small" / "v2")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state of another user"))
    version = tmp_path / "received" / "small" / "v2"
    assert find_lost_decisions(version) == []
    row = small_tables().queries.iloc[1]
    append_decisions(version.parent, [QueryDecision(row["query_id"], row["text"], "drop", at="2026-03-01")])
    assert publish_decisions(version).version == 3
    shutil.copy(decided / LOG, version.parent / LOG)
    cut_two_lines(version.parent / LOG)
    assert "2 of the 4 decisions" in str(find_lost_decisions(version)[0]), "its own log came along, and was cut"


def test_captions_that_people_wrote_are_missed_too(tmp_path: Path) -> None:
    stored = publish_small_set(tmp_path, small_tables())
    folder = stored.path.parent
    for number in range(3):
        append_decisions(folder, [HumanCaption(f"img_{number}", "en", f"a dog {number}")])
    decide(stored, 1, "edit")
    assert publish_decisions(stored.path).version == 2
    cut_two_lines(folder / "captions.jsonl")
    with pytest.raises(UserError, match=r"captions\.jsonl.*2 of its 3 lines"):
        publish_decisions(folder / "v2")


def drop(stored: StoredSet, row: int) -> None:
    query = stored.tables.queries.iloc[row]
    append_decisions(stored.path.parent, [QueryDecision(query.query_id, query.text, "drop", at="2026-01-01")])


@pytest.fixture
def stored(tmp_path: Path) -> StoredSet:
    """The first of two versions."""
    first = publish_small_set(tmp_path, small_tables())
    drop(first, 0)
    assert publish_decisions(first.path).version == 2
    return first


def remove_folder(folder: Path) -> None:
    shutil.rmtree(folder / "v2")


def remove_manifest(folder: Path) -> None:
    (folder / "v2" / "manifest.json").unlink()


def remove_folder_and_latest(folder: Path) -> None:
    """Only an evaluation remembers it."""
    shutil.rmtree(folder / "v2")
    (folder / "latest").write_text("v1\n")
    (folder / "evaluations" / "v2").mkdir(parents=True)


@pytest.mark.parametrize("lose", [remove_folder, remove_manifest, remove_folder_and_latest])
def test_a_lost_version_is_named_and_its_number_is_not_used_again(stored: StoredSet, lose: object) -> None:
    folder = stored.path.parent
    lose(folder)  # type: ignore[operator]
    drop(stored, 1)
    with pytest.raises(UserError, match=r"v2 (is missing|has no manifest), but .* refers to it.*restore its folder"):
        publish_decisions(stored.path)
    assert not (folder / "v3").exists()
    assert any("v2" in line for line in verify_decision_logs(stored.path))
    with active_run(BuildRun(accept_loss=True)):
        result = publish_decisions(stored.path)
    assert result.version == 3
    assert any("v2" in line for line in read_manifest(result.path)["known_limitations"])
    assert list(verify_decision_logs(result.path)) == [], "v3 says it, and goes on"


def test_that_an_older_version_is_gone_changes_nothing(stored: StoredSet) -> None:
    shutil.rmtree(stored.path)
    drop(stored, 1)
    assert publish_decisions(stored.path.parent / "v2").version == 3
