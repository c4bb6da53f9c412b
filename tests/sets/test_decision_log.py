"""The log of decisions: what was acknowledged is there, what was not is gone, and a changed line is named."""

import json
import multiprocessing
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from querytruth.backends.files import durable_files as append_log
from querytruth.errors import UserError
from querytruth.sets.decision_log import (
    CHAIN_START,
    DecisionLog,
    append_decisions,
    chain_lines,
    find_chain_breaks,
    read_decisions,
    split_chain,
    verify_logs,
)
from querytruth.sets.decision_records import (
    HumanCaption,
    ImagePairDecision,
    Override,
    QueryDecision,
    effective,
    latest_by_target,
    parse_decision,
)

DROP = QueryDecision("q_1", "狗", "drop", note="模糊\n两行", reviewer="lin")
EDIT = QueryDecision("q_2", "猫", "edit", new_text="大猫")
GRADE = QueryDecision("q_1", "狗", "grade", "img_1", relevance=1)


def test_what_is_appended_is_read_in_order(tmp_path: Path) -> None:
    assert read_decisions(tmp_path / "pets", QueryDecision) == []
    append_decisions(tmp_path / "pets", [DROP, EDIT])
    append_decisions(tmp_path / "pets", [GRADE, DROP])
    assert read_decisions(tmp_path / "pets", QueryDecision) == [DROP, EDIT, GRADE, DROP]
    assert "模糊" in (tmp_path / "pets" / "decisions.jsonl").read_text("utf-8")


def test_verify_names_the_line_that_a_disk_or_an_editor_changed(tmp_path: Path) -> None:
    for decision in (DROP, EDIT, GRADE, EDIT):
        append_decisions(tmp_path, [decision])
    path = tmp_path / "decisions.jsonl"
    lines = path.read_text("utf-8").splitlines(keepends=True)
    assert not list(verify_logs(tmp_path)) and not list(verify_logs(tmp_path / "nothing"))
    for changed in (lines[:1] + lines[2:], [lines[0], lines[2], lines[1], lines[3]], [lines[0], lines[1], *lines[1:]]):
        path.write_text("".join(changed), "utf-8")
        assert next(verify_logs(tmp_path)).startswith("decisions.jsonl line ")
    path.write_text("".join(lines).replace("大猫", "小猫", 1), "utf-8")
    assert [problem.partition(":")[0] for problem in verify_logs(tmp_path)] == ["decisions.jsonl line 2"]


def test_no_decision_leaves_no_trace(tmp_path: Path) -> None:
    append_decisions(tmp_path / "pets", [])
    assert not (tmp_path / "pets").exists()


@pytest.mark.parametrize("cut", [1, 2, 30, 100])
def test_a_torn_last_line_is_skipped_and_gone_with_the_next_append(cut: int, tmp_path: Path) -> None:
    append_decisions(tmp_path, [DROP])
    append_decisions(tmp_path, [EDIT])
    path = tmp_path / "decisions.jsonl"
    path.write_bytes(path.read_bytes()[:-cut])
    assert read_decisions(tmp_path, QueryDecision) == [DROP]
    append_decisions(tmp_path, [GRADE])
    assert read_decisions(tmp_path, QueryDecision) == [DROP, GRADE]
    assert path.read_bytes().count(b"\n") == 2


@pytest.mark.parametrize("cut", [1, 200, 400])
def test_of_several_that_were_saved_together_none_is_there_when_the_end_is_torn(cut: int, tmp_path: Path) -> None:
    append_decisions(tmp_path, [DROP])
    append_decisions(tmp_path, [EDIT, GRADE, DROP])
    path = tmp_path / "decisions.jsonl"
    path.write_bytes(path.read_bytes()[:-cut])
    assert read_decisions(tmp_path, QueryDecision) == [DROP]


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_log_that_was_saved_by_an_editor_is_read(end: bytes, tmp_path: Path) -> None:
    append_decisions(tmp_path, [DROP])
    append_decisions(tmp_path, [EDIT, GRADE])
    path = tmp_path / "decisions.jsonl"
    path.write_bytes(end.join(path.read_bytes().splitlines()) + end)
    assert read_decisions(tmp_path, QueryDecision) == [DROP, EDIT, GRADE]


@pytest.mark.parametrize("size", [1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3 << 20])
def test_a_torn_line_of_any_length_is_gone_and_the_line_before_it_stays(size: int, tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    append_decisions(tmp_path, [DROP])
    for before in (path.read_bytes(), b""):
        path.write_bytes(before + b"x" * size)
        append_decisions(tmp_path, [EDIT])
        assert read_decisions(tmp_path, QueryDecision) == ([DROP, EDIT] if before else [EDIT])


def line(**fields: object) -> bytes:
    whole = {"decision": "grade", "query_id": "q", "text": "a", "image_id": "i", "relevance": 1}
    return json.dumps(whole | fields).encode()


DAMAGE = [
    *(b"", b"{", b"null", b"[]", b"\x00\x00", b"\xff\xfe", b"[" * 100_000, line()[:-1], line()[1:]),
    *(b'{"decision": "drop"}', line(decision="burn"), line(decision=["drop"]), line(colour="red")),
    *(line(query_id=7), line(text=None), line(note=None), line(image_id=None), line(decision="edit")),
    *(line(relevance=None), line(relevance="2"), line(relevance=True), line(relevance=-1), line(relevance=999)),
    *(line(relevance=1.0), line(relevance=float("nan"))),
]


@pytest.mark.parametrize("damaged", DAMAGE, ids=range(len(DAMAGE)))
def test_a_damaged_line_names_file_and_line(damaged: bytes, tmp_path: Path) -> None:
    for one in (DROP, EDIT, GRADE):
        append_decisions(tmp_path, [one])
    path = tmp_path / "decisions.jsonl"
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([lines[0], damaged, *lines[2:]]))
    with pytest.raises(UserError, match=r"decisions\.jsonl line 2 \(read decisions\)") as caught:
        read_decisions(tmp_path, QueryDecision)
    assert "\n" not in str(caught.value)


def test_a_disk_that_fills_up_half_way_takes_none(tmp_path: Path) -> None:
    """A real limit on the file's size: the first write takes a part, the next one fails."""
    append_decisions(tmp_path, [DROP])
    size = (tmp_path / "decisions.jsonl").stat().st_size
    many = [QueryDecision("q_1", "狗", "keep", note=f"{n}") for n in range(1000)]
    script = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from querytruth.sets.decision_log import append_decisions\n"
        "from querytruth.sets.decision_records import QueryDecision; from querytruth.errors import UserError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({size + 5000}, {resource.RLIM_INFINITY}))\n"
        "try:\n"
        "    many = [QueryDecision('q_1', '狗', 'keep', note=str(n)) for n in range(1000)]\n"
        "    append_decisions(Path(sys.argv[1]), many)\n"
        "except UserError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True)
    assert "File too large" in done.stdout and "no decision was saved" in done.stdout
    assert (tmp_path / "decisions.jsonl").stat().st_size == size
    append_decisions(tmp_path, many)
    assert read_decisions(tmp_path, QueryDecision) == [DROP, *many]


def test_an_interrupted_append_takes_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append_decisions(tmp_path, [DROP])

    def interrupt(_handle: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(append_log.os, "fsync", interrupt)
        with pytest.raises(KeyboardInterrupt):
            append_decisions(tmp_path, [EDIT])
    assert read_decisions(tmp_path, QueryDecision) == [DROP]


def test_a_log_that_cannot_be_opened_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "decisions.jsonl").mkdir()
    with pytest.raises(UserError, match=r"save decisions.*Is a directory"):
        append_decisions(tmp_path, [DROP])
    with pytest.raises(UserError, match=r"read decisions.*Is a directory"):
        read_decisions(tmp_path, QueryDecision)


def test_half_a_character_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="half a character"):
        append_decisions(tmp_path, [DROP, QueryDecision("q_1", "狗", "drop", note="\ud83d")])
    assert read_decisions(tmp_path, QueryDecision) == []


def _append_many(folder: Path, who: str) -> None:
    for n in range(40):
        notes = [f"{n}.{part}" + "x" * 500 for part in range(5)]
        append_decisions(folder, [QueryDecision("q_1", "狗", "keep", note=note, reviewer=who) for note in notes])


def test_two_processes_at_once_lose_nothing_and_mix_no_import(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("fork")
    workers = [spawn.Process(target=_append_many, args=(tmp_path, who)) for who in ("lin", "wu")]
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers):
        assert len(read_decisions(tmp_path, QueryDecision)) % 5 == 0, "a reader saw half an import"
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    log = read_decisions(tmp_path, QueryDecision)
    assert len(log) == 400
    for who in ("lin", "wu"):
        notes = [d.note.rstrip("x") for d in log if d.reviewer == who]
        assert notes == [f"{n}.{p}" for n in range(40) for p in range(5)]
    assert all(len({d.reviewer for d in log[n : n + 5]}) == 1 for n in range(0, 400, 5))


def test_what_is_acknowledged_outlives_a_kill(tmp_path: Path) -> None:
    """Killed at any moment, the log holds all acknowledged decisions and reads without complaint."""
    script = (
        "import sys; from pathlib import Path\n"
        "from querytruth.sets.decision_log import append_decisions\n"
        "from querytruth.sets.decision_records import QueryDecision\n"
        "for n in range(10**6):\n"
        "    append_decisions(Path(sys.argv[1]), [QueryDecision('q_1', 'a', 'keep', note=str(n))])\n"
        "    print(n, flush=True)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    acknowledged = -1
    for _ in range(200):
        acknowledged = int(process.stdout.readline())
    process.kill()
    process.wait()
    rest = [int(line) for line in process.stdout.read().split("\n")[:-1]]
    notes = [int(decision.note) for decision in read_decisions(tmp_path, QueryDecision)]
    assert notes == list(range(len(notes)))
    assert len(notes) > max([acknowledged, *rest])


def test_a_reader_follows_the_log_from_where_it_stopped(tmp_path: Path) -> None:
    assert DecisionLog(tmp_path, QueryDecision).read_from(0) == ([], 0)
    append_decisions(tmp_path, [DROP])
    first, end = DecisionLog(tmp_path, QueryDecision).read_from(0)
    assert first == [DROP] and DecisionLog(tmp_path, QueryDecision).read_from(end) == ([], end)
    append_decisions(tmp_path, [EDIT, GRADE])
    path = tmp_path / "decisions.jsonl"
    path.write_bytes(path.read_bytes() + b'{"torn')
    further, last = DecisionLog(tmp_path, QueryDecision).read_from(end)
    assert further == [EDIT, GRADE], "a line that is not whole yet is left for the next time"
    append_decisions(tmp_path, [DROP])
    assert DecisionLog(tmp_path, QueryDecision).read_from(last)[0] == [DROP]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("decisions.jsonl", '{"query_id": "q_1"}'),
        ("decisions.jsonl", '{"query_id": "q_1", "text": "狗", "decision": "keep", "relevance": "1"}'),
        ("decisions.jsonl", "no JSON"),
        ("decisions.jsonl", '{"image_id": "i", "language": "zh", "text": "狗"}'),
        ("captions.jsonl", DROP.as_json()),
    ],
)
def test_verify_names_each_line_at_which_every_other_command_stops(tmp_path: Path, name: str, line: str) -> None:
    chained = chain_lines([line], CHAIN_START)  # as if we had written it
    (tmp_path / name).write_text("\n".join(chained) + "\n", "utf-8")
    kind = HumanCaption if name == "captions.jsonl" else QueryDecision
    with pytest.raises(UserError):
        read_decisions(tmp_path, kind)
    assert any(problem.startswith(f"{name} line 1: ") for problem in verify_logs(tmp_path))


LINES = [json.dumps({"text": f'{n}, "chain": "{"0" * 32}"}}'}) for n in range(8)]
CHAINED = chain_lines(LINES, CHAIN_START)


def broken(lines: list[str]) -> list[int]:
    return [number for number, _ in find_chain_breaks(lines)]


def test_a_log_that_nobody_touched_is_whole_and_holds_what_was_written() -> None:
    assert not broken(CHAINED) and not broken([])
    assert [split_chain(line)[0] for line in CHAINED] == LINES
    assert [json.loads(line)["text"] for line in CHAINED] == [json.loads(line)["text"] for line in LINES]
    again = chain_lines(LINES[3:], split_chain(CHAINED[2])[1])
    assert CHAINED[:3] + again == CHAINED, "a later session continues it"


def test_each_flipped_bit_of_each_line_is_named() -> None:
    for number, line in enumerate(CHAINED, start=1):
        for place in range(0, len(line), 3):
            flipped = line[:place] + chr(ord(line[place]) ^ 1) + line[place + 1 :]
            problems = broken([*CHAINED[: number - 1], flipped, *CHAINED[number:]])
            assert number in problems


def test_lines_that_are_deleted_moved_doubled_or_added_are_named() -> None:
    for n in range(len(CHAINED) - 1):
        assert n + 1 in broken(CHAINED[:n] + CHAINED[n + 1 :])
        assert broken([*CHAINED[:n], CHAINED[n + 1], CHAINED[n], *CHAINED[n + 2 :]])
    assert broken([*CHAINED[:3], CHAINED[2], *CHAINED[3:]]) == [4]
    assert broken([*CHAINED[:3], LINES[0], *CHAINED[3:]]) == [4]


def test_a_log_whose_chains_were_taken_out_is_named_line_by_line() -> None:
    assert broken(LINES) == list(range(1, 9))


WANTED = Override("img_a", "rescue", "夏天/a.jpg", "", "全景，值得留下", "lin", "rejects", "2026-01-02T03:04:05+00:00")


APART = ImagePairDecision(
    ("img_a", "img_b"), "different", "另一次拍的", "lin", "duplicates", "2026-01-02T03:04:05+00:00"
)


def undo(of: Override | ImagePairDecision) -> Override | ImagePairDecision:
    if isinstance(of, Override):
        return Override(of.item, "undo", of.name, reviewer=of.reviewer, undoes=of.decision_id)
    return ImagePairDecision(of.images, "undo", reviewer=of.reviewer, undoes=of.decision_id)


def test_three_kinds_share_a_log_each_reader_finds_its_own_and_older_ids_stay(tmp_path: Path) -> None:
    older, newer = QueryDecision("q_1", "狗", "drop", reviewer="lin"), QueryDecision("q_2", "猫", "keep")
    assert older.decision_id == "d_b53b91ab549c9a2e675f"
    for word in (older, APART, WANTED, newer, undo(WANTED)):
        append_decisions(tmp_path, [word])
    assert read_decisions(tmp_path, QueryDecision) == [older, newer]
    size = (tmp_path / "decisions.jsonl").stat().st_size
    for kind, said in ((ImagePairDecision, [APART]), (Override, [WANTED, undo(WANTED)])):
        assert read_decisions(tmp_path, kind) == said
        assert DecisionLog(tmp_path, kind).read_from(0) == (said, size)
        assert DecisionLog(tmp_path, kind).read_from(size) == ([], size)


@pytest.mark.thorough
def test_the_last_word_on_an_item_counts_and_undo_brings_the_one_before_back() -> None:
    other = replace(WANTED, item="img_b")
    assert latest_by_target([other, WANTED]) == {"img_a": WANTED, "img_b": other}
    assert list(latest_by_target([other, WANTED])) == ["img_a", "img_b"], "whatever the order of the log"
    for first, target in ((WANTED, "img_a"), (APART, APART.images)):
        again = replace(first, note="另一个理由", at="later")
        assert latest_by_target([first, again]) == {target: again}
        assert latest_by_target([first, again, undo(again)]) == {target: first}
        assert latest_by_target([first, undo(first)]) == {}
    assert effective([APART, APART, undo(APART)]) == [APART]
    assert latest_by_target([undo(APART), APART]) == {APART.images: APART}, "only what was decided before it"


@given(st.text(max_size=60), st.text(min_size=1, max_size=60), st.text(max_size=60))
def test_a_line_comes_back_as_it_was(item: str, note: str, caption: str) -> None:
    word = Override("q_" + item, "rescue", item, caption, note, at="2026-01-02")
    if note.strip():
        assert parse_decision(word.as_json()) == word and "\n" not in word.as_json()
    else:
        with pytest.raises(ValueError, match="reason"):
            parse_decision(word.as_json())


@pytest.mark.parametrize(
    "line",
    [
        *('{"item": "img_a", "decision": "rescue"}', '{"item": "img_a", "decision": "rescue", "note": "  "}'),
        *('{"item": "", "decision": "rescue", "note": "why"}', '{"item": 3, "decision": "rescue", "note": "why"}'),
        *('{"item": "img_a", "decision": "keep", "note": "why"}', '{"item": "img_a", "decision": "undo"}'),
        '{"item": "img_a", "decision": "rescue", "note": "why", "undoes": "d_1"}',
        '{"item": "img_a", "decision": "rescue", "note": ["why"]}',
        '{"item": "img_a", "decision": "rescue", "note": "half \\ud83d of it"}',
        '{"query_id": "q_1", "text": "\\ud83d", "decision": "keep"}',
        '{"item": "img_a", "decision": "rescue", "note": "why", "colour": "red"}',
        *('{"images": ["a"], "decision": "same"}', '{"images": ["b", "a"], "decision": "same"}'),
        *('{"images": ["a", "a"], "decision": "same"}', '{"images": ["a", 1], "decision": "same"}'),
        *('{"images": ["a", "b"], "decision": "drop"}', '{"images": ["a", "b"], "decision": "undo"}'),
        *('{"images": ["a", "b"], "decision": "same", "undoes": "d_1"}', '{"images": ["a", "b"]}'),
        *('{"images": ["a", "b"], "decision": "same", "note": 3}', '{"images": "ab", "decision": "same"}'),
        '{"images": ["a", "b"], "decision": "same", "colour": "red"}',
    ],
)
def test_a_damaged_line_is_named_whoever_reads_the_log(line: str, tmp_path: Path) -> None:
    (tmp_path / "decisions.jsonl").write_text(line + "\n")
    for kind in (QueryDecision, ImagePairDecision, Override):
        with pytest.raises(UserError, match=r"decisions\.jsonl line 1"):
            read_decisions(tmp_path, kind)
