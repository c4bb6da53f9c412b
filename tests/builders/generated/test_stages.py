"""Topics and objects end to end: asked of an endpoint, judged, kept, handed to people, taken back; the same however a
run is stopped, resumed or repeated."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders.generated.stages import (
    load_chosen_objects,
    load_stage_summary,
    record_stage,
    run_objects_stage,
    run_topics_stage,
)
from querytruth.backends.steps import BuildRun, active_run
from querytruth.errors import UserError
from querytruth.sets.ledger import Ledger
from querytruth.sets.review_csv import ReviewTableOptions
from querytruth.sets.review_tables import ImportTolerances
from tests.flows.stub_generator import (
    SOURCE,
    Listener,
    StubGenerator,
    answering,
    define_stages,
    prompt_of,
    run_both_stages,
    stage_files,
    stub_reply,
)
from tests.loopback import CannedResponse, Loopback, ReceivedRequest, loopback


@pytest.fixture
def server() -> Iterator[Loopback]:
    with loopback(answering(StubGenerator())) as running_server:
        yield running_server


def answer(file: Path, **words: str) -> None:
    """Fill the column decision, or new_text, of rows by their text, as a person would."""
    names, *lines = file.read_text("utf-8-sig").splitlines()
    columns = names.split(",")
    filled = []
    for line in lines:
        cells = line.split(",")
        if word := words.get(cells[1]):
            cells[columns.index("decision" if word in ("drop", "keep") else "new_text")] = word
        filled.append(",".join(cells))
    file.write_text("\r\n".join([names, *filled, ""]), "utf-8-sig", newline="")


def test_every_reply_and_row_is_booked_and_the_summary_tells_a_manifest_what_it_needs(
    server: Loopback, tmp_path: Path
) -> None:
    wanted = define_stages(tmp_path, server.url)
    results = run_both_stages(wanted)
    ledger = Ledger()
    for stage, result in zip(("topics", "objects"), results, strict=True):
        record_stage(wanted, stage, SOURCE, ledger)
        summary = load_stage_summary(wanted, stage, SOURCE)
        assert summary["funnel"] == result.ledger.funnel() == ledger.funnel()[-2:]
        assert summary["models"][0] == {
            "role": stage,
            "name": "stub",
            "revision": "",
            "parameters": {"max_tokens": 256, "temperature": 1.0},
        }
        assert summary["inputs"][0]["sha256"] == result.digest
        assert {prompt["name"] for prompt in summary["prompts"]} >= {f"zh/{stage}"}
        assert server.url not in json.dumps(summary) and str(tmp_path) not in json.dumps(summary)
        rows = ledger.stages[-1]
        assert rows.entered == sum(result.rows.values()) and rows.accepted == result.rows["accepted"]
    assert load_stage_summary(wanted, "objects", SOURCE)["thresholds"][-1]["value"] == 0.6


@pytest.mark.thorough
def test_offline_makes_no_call_with_all_replies_there_and_names_the_missing_ones_without(
    server: Loopback, tmp_path: Path
) -> None:
    wanted = define_stages(tmp_path, server.url)
    with pytest.raises(UserError, match=r"4 of 4 questions of round 1 have no reply .*Next: run without --offline"):
        run_both_stages(wanted, offline=True)
    assert not server.asked
    first = run_both_stages(wanted)
    for journal in (tmp_path / "tiny" / "generated").glob("*.jsonl"):
        journal.unlink()
    asked = len(server.asked)
    assert [result.digest for result in run_both_stages(wanted, offline=True)] == [result.digest for result in first]
    assert len(server.asked) == asked


@pytest.mark.thorough
def test_the_order_in_which_parallel_replies_come_is_no_matter(tmp_path: Path) -> None:
    stub = StubGenerator()

    def late(asked: ReceivedRequest) -> CannedResponse:
        time.sleep(hash(prompt_of(asked)) % 7 / 500)
        return stub_reply(stub.reply(prompt_of(asked)))

    digests = set()
    for name, answers, concurrency in (("one", answering(stub), 1), ("late", late, 8), ("later", late, 3)):
        with loopback(answers) as server:
            results = run_both_stages(define_stages(tmp_path / name, server.url, options={"concurrency": concurrency}))
            digests.add(
                (
                    *(result.digest for result in results),
                    (tmp_path / name / "tiny" / "review" / "objects.csv").read_bytes(),
                )
            )
    assert len(digests) == 1


@pytest.mark.thorough
def test_a_journal_cut_anywhere_is_written_to_its_end_the_same_and_without_a_call(
    server: Loopback, tmp_path: Path
) -> None:
    wanted = define_stages(tmp_path, server.url)
    run_both_stages(wanted)
    expected, asked = stage_files(tmp_path), len(server.asked)
    for journal in (tmp_path / "tiny" / "generated").glob("*.jsonl"):
        data = journal.read_bytes()
        for at in (0, 10, len(data) // 3, len(data) // 2, len(data) - 1):
            journal.write_bytes(data[:at])
            run_both_stages(wanted)
            assert stage_files(tmp_path) == expected, (journal.name, at)
    assert len(server.asked) == asked


@pytest.mark.thorough
def test_what_people_drop_and_edit_decides_about_the_next_stage(server: Loopback, tmp_path: Path) -> None:
    wanted = define_stages(tmp_path, server.url)
    topics = run_topics_stage(wanted, SOURCE)
    answer(topics.file, 食物="drop", 动物="生灵", 高铁="drop", 帆船="白帆船")
    objects = run_objects_stage(wanted, SOURCE)
    kept = load_chosen_objects(wanted, SOURCE)
    assert not {"饺子", "高铁", "帆船"} & set(kept["text"])
    assert {"大熊猫", "白帆船"} <= set(kept["text"])
    assert "生灵" in set(kept["topic"]) and not {"食物", "动物"} & set(kept["topic"])
    assert not any("当前主题是：食物" in prompt_of(asked) for asked in server.asked)
    answer(objects.file, 大熊猫="drop", 白帆船="帆船")
    again = load_chosen_objects(wanted, SOURCE)
    assert {"大熊猫", "白帆船"}.isdisjoint(again["text"]) and "帆船" in set(again["text"])
    assert len(again) == len(kept) - 1


def test_the_same_prompt_in_another_round_is_another_question(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text("食物: [饺子]\n", "utf-8")
    with loopback(lambda _asked: stub_reply("没有想法")) as server:
        topics = {"samples": str(tmp_path / "one.yaml"), "rounds": 3}
        wanted = define_stages(tmp_path, server.url, topics=topics, objects={"barren": 2})
        found, objects = run_both_stages(wanted)
        assert len({prompt_of(asked) for asked in server.asked}) == 2
    assert (found.calls, objects.calls, objects.stop_counts) == (3, 2, {"barren": 1})


@pytest.mark.thorough
def test_another_choice_begins_anew_and_what_was_asked_the_same_is_not_asked_again(
    server: Loopback, tmp_path: Path
) -> None:
    wanted = define_stages(tmp_path, server.url)
    topics, _ = run_both_stages(wanted)
    asked = len(server.asked)
    answer(topics.file, 乐器="drop")
    second = run_objects_stage(wanted, SOURCE)
    assert len(list((tmp_path / "tiny" / "generated").glob("objects-*.jsonl"))) == 2
    assert second.calls < second.health.replies and len(server.asked) == asked + second.calls
    assert load_chosen_objects(wanted, SOURCE)["topic"].ne("乐器").all()


@pytest.mark.thorough
def test_a_table_that_people_have_stays_theirs_and_a_newer_one_takes_their_answers_along(
    server: Loopback, tmp_path: Path
) -> None:
    wanted = define_stages(tmp_path, server.url)
    file = run_topics_stage(wanted, SOURCE).file
    answer(file, 食物="drop", 蜗牛="大蜗牛")
    filled = file.read_bytes()
    assert run_topics_stage(wanted, SOURCE).file.read_bytes() == filled
    more = define_stages(tmp_path, server.url, topics={"rounds": 16})
    assert run_topics_stage(more, SOURCE).file == file
    cells = [line.split(",") for line in file.read_text("utf-8-sig").splitlines()[1:]]
    said_now = {row[1]: (row[7], row[8]) for row in cells if row[7]}
    assert said_now == {"食物": ("drop", ""), "蜗牛": ("edit", "大蜗牛")}
    assert len(cells) > len(filled.splitlines()) - 1
    run_objects_stage(more, SOURCE)
    assert "大蜗牛" in set(load_chosen_objects(more, SOURCE)["text"])


@pytest.mark.thorough
def test_a_damaged_table_is_refused_as_a_whole_and_never_overwritten(server: Loopback, tmp_path: Path) -> None:
    wanted, listener = define_stages(tmp_path, server.url), Listener()
    file = run_topics_stage(wanted, SOURCE).file
    handed = file.read_text("utf-8-sig")
    file.write_text(handed.replace(",饺子,", ",餃子,").replace(",狮子,", ",drop,"), "utf-8-sig", newline="")
    with (
        active_run(BuildRun(listener)),
        pytest.raises(UserError, match=r"topics.csv .*1 problems, the first: row \d+, text"),
    ):
        run_objects_stage(wanted, SOURCE)
    assert any("'餃子' was exported as '饺子'" in line for line in listener.lines)
    damaged = file.read_bytes()
    with pytest.raises(UserError, match="problems"):
        run_topics_stage(define_stages(tmp_path, server.url, topics={"rounds": 9}), SOURCE)
    assert file.read_bytes() == damaged
    result = run_objects_stage(wanted, SOURCE, ReviewTableOptions(ImportTolerances(changed=True)))
    assert result.rows["accepted"] > 0


@pytest.mark.thorough
def test_a_table_of_another_set_or_stage_is_refused_and_without_one_the_command_is_named(
    server: Loopback, tmp_path: Path
) -> None:
    wanted, other = define_stages(tmp_path, server.url), define_stages(tmp_path, server.url, name="other")
    with pytest.raises(UserError, match=r"topics.csv .*does not exist yet. Next: run querytruth topics tiny.yaml"):
        run_objects_stage(wanted, SOURCE)
    with pytest.raises(UserError, match=r"objects.csv .*does not exist yet. Next: run querytruth objects tiny.yaml"):
        load_chosen_objects(wanted, SOURCE)
    with pytest.raises(UserError, match=r"run querytruth objects tiny\.yaml"):
        load_stage_summary(wanted, "objects", SOURCE)
    mine, theirs = run_topics_stage(wanted, SOURCE).file, run_topics_stage(other, SOURCE).file
    mine.write_bytes(theirs.read_bytes())
    with pytest.raises(UserError, match="of other/v0, which this stage did not write"):
        run_objects_stage(wanted, SOURCE)
    mine.unlink()
    run_both_stages(wanted)
    mine.write_bytes(run_objects_stage(wanted, SOURCE).file.read_bytes())
    with pytest.raises(UserError, match="of tiny/v0, which this stage did not write"):
        run_objects_stage(wanted, SOURCE)


def test_where_people_keep_no_topic_the_next_stage_says_so(server: Loopback, tmp_path: Path) -> None:
    wanted = define_stages(tmp_path, server.url, topics={"rounds": 1})
    file = run_topics_stage(wanted, SOURCE).file
    rows = [line.split(",") for line in file.read_text("utf-8-sig").splitlines()[1:]]
    answer(file, **{row[1]: "drop" for row in rows if row[3] == "topic"})
    with pytest.raises(UserError, match="has no accepted topic"):
        run_objects_stage(wanted, SOURCE)


@pytest.mark.thorough
def test_budgets_of_calls_and_tokens_end_a_stage_and_a_larger_one_goes_on(server: Loopback, tmp_path: Path) -> None:
    few = define_stages(tmp_path, server.url, topics={"calls": 6}, objects={"calls": 20})
    topics, objects = run_both_stages(few)
    assert (topics.stop_counts, topics.calls) == ({"call_budget": 1}, 6)
    assert objects.calls == 20 and set(objects.stop_counts) == {"call_budget"}
    tokens = run_topics_stage(
        define_stages(tmp_path, server.url, name="tokens", topics={"tokens": 500, "rounds": 40}), SOURCE
    )
    assert (tokens.stop_counts, tokens.calls) == ({"token_budget": 1}, 8), "a wave of four costs 480"
    more, asked = define_stages(tmp_path, server.url, topics={"calls": 8}), len(server.asked)
    assert run_topics_stage(more, SOURCE).stop_counts == {"round_limit": 1}
    assert len(server.asked) == asked + 2, "what was asked before is known"


@pytest.mark.thorough
def test_a_question_that_fails_for_good_is_a_barren_round_and_is_asked_again_on_demand(tmp_path: Path) -> None:
    stub, filtering = StubGenerator(), True

    def filtered(asked: ReceivedRequest) -> CannedResponse:
        if filtering and "当前主题是：{动物}" in prompt_of(asked):
            return stub_reply("", "content_filter")
        return stub_reply(stub.reply(prompt_of(asked)))

    with loopback(filtered) as server:
        wanted = define_stages(tmp_path, server.url, topics={"rounds": 1}, objects={"rounds": 20, "barren": 3})
        _, objects = run_both_stages(wanted)
        assert objects.stop_counts["barren"] == 1
        replies = objects.ledger.stages[0]
        assert replies.rejected["content_filter"] == 3
        filtering = False
        assert run_both_stages(wanted)[1].digest == objects.digest
        _, again = run_both_stages(wanted, retry_failures=True)
        assert "content_filter" not in again.ledger.stages[0].rejected
        assert again.digest != objects.digest


def test_a_question_without_an_answer_that_lasts_stops_the_stage_after_the_last_whole_wave(tmp_path: Path) -> None:
    stub, broken = StubGenerator(), True

    def sometimes(asked: ReceivedRequest) -> CannedResponse:
        return (
            CannedResponse("busy", 503)
            if broken and len(server.asked) > 13
            else stub_reply(stub.reply(prompt_of(asked)))
        )

    with loopback(sometimes) as server:
        wanted = define_stages(tmp_path, server.url, topics={"rounds": 24})
        with pytest.raises(UserError, match=r"4 of 4 questions of round 13 have no reply|3 of 4 questions of round 13"):
            run_topics_stage(wanted, SOURCE)
        journal = next((tmp_path / "tiny" / "generated").glob("*.jsonl"))
        assert journal.read_text().count("\n") == 1 + 3
        broken = False
        assert run_topics_stage(wanted, SOURCE).stop_counts == {"round_limit": 1}


@pytest.mark.thorough
def test_people_are_told_how_it_goes_and_warned_once(tmp_path: Path) -> None:
    listener = Listener()
    with loopback(answering(StubGenerator(repeated_word="教堂"))) as server, active_run(BuildRun(listener)):
        wanted = define_stages(tmp_path, server.url, objects={"rounds": 12})
        run_topics_stage(wanted, SOURCE)
        result = run_objects_stage(wanted, SOURCE)
    assert [warning.code for warning in result.health.warnings] == ["collapse"]
    warned = [line for line in listener.lines if line.startswith("warning")]
    assert len(warned) == 1 and "教堂" in warned[0]
    assert listener.lines[-1] == result.health.summary_line
    course = load_stage_summary(wanted, "objects", SOURCE)["course"]
    assert len(course) == 12 and course[-1]["head"] > 0.5


def test_the_embedder_is_asked_for_the_language_first(
    server: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Monoglot:
        fingerprint = "monoglot@1"

        def check_language(self, texts: list[str]) -> None:
            assert "饺子" in texts
            raise UserError("embed texts", "monoglot", "does not know 99% of the tokens of these texts", "name another")

    monkeypatch.setattr("builders.generated.object_rounds.load_text_embedder", lambda _name: Monoglot())
    wanted = define_stages(tmp_path, server.url, objects={"embedder": "monoglot"})
    run_topics_stage(wanted, SOURCE)
    asked = len(server.asked)
    with pytest.raises(UserError, match=r"monoglot .*does not know 99%"):
        run_objects_stage(wanted, SOURCE)
    assert len(server.asked) == asked


def test_english_prompts_and_the_person_s_own_samples(tmp_path: Path) -> None:
    def english(asked: ReceivedRequest) -> CannedResponse:
        if "current topic is" in prompt_of(asked):
            rows = [
                f"{n}. {chr(97 + len(server.asked) % 26)}{chr(97 + n)}{len(server.asked)}x bridge" for n in range(1, 6)
            ]
            return stub_reply("\n".join(["Sure!", *rows]))
        answer = "for the topic #bridges#, I came up with these #objects#: #stone arch#, #old viaduct#"
        return stub_reply(f"Thought: choose the topic #bridges#\nAnswer: {answer}")

    (tmp_path / "mine.yaml").write_text("towers: [water tower, bell tower]\n")
    prompts = {"prompt": "en/topics", "samples": str(tmp_path / "mine.yaml"), "rounds": 2}
    with loopback(english) as server:
        wanted = define_stages(tmp_path, server.url, topics=prompts, objects={"prompt": "en/objects", "rounds": 2})
        topics, objects = run_both_stages(wanted)
        first = prompt_of(server.asked[0])
    assert "#water tower#" in first and "fried chicken" not in first
    assert topics.rows["accepted"] == 2
    assert objects.rows["accepted"] > 0 and set(load_chosen_objects(wanted, SOURCE)["topic"]) == {"bridges", "towers"}
