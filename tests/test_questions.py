"""Plans and budgets of calls, the prompts that are asked, and replies that are asked for again."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import prompts
from builders.generated.stages import plan_topics
from builders.recall.caption_rules import load_cleaning_rules
from flows.definition_checks import check_before_build
from flows.definition_loader import load_definition
from flows.rebuild import rebuild_tables, refresh_replies
from flows.set_kinds import build_set, plan_set
from querytruth.backends.models import chat
from querytruth.backends.models.cached_replies import answer_requests
from querytruth.backends.models.chat import ChatRequest, GenerationParameters, Message
from querytruth.backends.models.question_leases import Spending
from querytruth.backends.models.reply_store import open_reply_store
from querytruth.backends.models.stored_answers import replies_as_of
from querytruth.backends.steps import BuildRun, active_run
from querytruth.cli.build_output import format_forecast
from querytruth.definitions import BudgetOptions, PriceOptions
from querytruth.errors import BudgetSpentError, UserError
from querytruth.questions import ASSUMED_CALL_SECONDS, forecast_calls, load_prompt, summarize_forecasts
from querytruth.sets import set_files
from tests.command_runner import invoke
from tests.flows.stub_generator import Listener
from tests.loopback import CannedResponse, Loopback, ReceivedRequest, loopback
from tests.object_service import SECRET_KEY, ObjectService
from tests.worlds import caption_reply, chat_reply, draw_album

PRICE = PriceOptions(input_per_million=2, output_per_million=10, currency="EUR")


def answer(_asked: ReceivedRequest) -> CannedResponse:
    number = time.monotonic_ns() % 10**8  # more digits would look private
    return chat_reply(f"桌上放着编号{number}的盒子", usage={"prompt_tokens": 100, "completion_tokens": 20})


@pytest.fixture
def server() -> Iterator[Loopback]:
    with loopback(answer) as running:
        yield running


def load(server: Loopback, at_once: int = 4) -> chat.ChatModel:
    options = {"base_url": server.url, "name": "m", "concurrency": at_once, "pause": 0, "tries": 1}
    return chat.load_chat_model("openai_compatible", **options)


def questions(numbers: range) -> list[ChatRequest]:
    return [ChatRequest((Message("user", str(n)),), GenerationParameters()) for n in numbers]


def test_tokens_and_money_are_those_that_the_endpoint_counted(server: Loopback, reply_location: str) -> None:
    model = load(server)
    with open_reply_store(reply_location) as store:
        before = forecast_calls(store, model, "captions", 10, price=PRICE)
        assert (before.seconds, before.is_measured) == (3 * ASSUMED_CALL_SECONDS, False)  # 4, 4 and 2 side by side
        assert (before.tokens, before.cost) == (None, None)
        assert summarize_forecasts([before])["cost_about"] is None
        answer_requests(store, model, questions(range(8)), role="captions")
        after = forecast_calls(store, model, "captions", 10, price=PRICE)
    assert after.is_measured and after.seconds < ASSUMED_CALL_SECONDS
    assert summarize_forecasts([after])["tokens_about"] == {"input": 1000, "output": 200}
    assert summarize_forecasts([after])["cost_about"] == {"EUR": 0.004}  # 1,000 at 2 and 200 at 10 per million


def test_the_first_plan_guesses_tokens_and_money_by_prompts_and_limits(server: Loopback, tmp_path: Path) -> None:
    """Before any reply: 2 images of 64 pixels, the prompt's bytes, and at most the article's 48 tokens out."""
    draw_album(tmp_path / "album", ["a", "b"])
    with active_run(BuildRun()):
        plan = plan_set(definition(tmp_path, server))
    prompt = len(load_prompt("zh/caption", {}).text.encode()) / 3.5 + 64 * 64 / 784
    assert plan["tokens_about"] == {"input": round(2 * prompt), "output": 96} and not plan["tokens_are_counted"]
    assert plan["cost_about"] == {"USD": round((2 * round(2 * prompt) + 10 * 96) / 1e6, 4)} and server.asked == []
    assert "96 output tokens at most (estimated from prompts and limits), under 0.01 USD" in format_forecast(plan)


def test_the_first_plan_of_topics_has_a_price(server: Loopback, tmp_path: Path) -> None:
    model = f"{{model: openai_compatible, rounds: 8, options: {{base_url: {server.url}/v1, name: m}}"
    price = "price: {input_per_million: 1000, output_per_million: 1000, currency: CNY}}"
    keys = [f"out={tmp_path}", "name=things", f"topics={model}, {price}", "objects.embedder=char_ngrams"]
    plan = plan_topics(load_definition(None, keys, "generated"))  # type: ignore[arg-type]
    assert plan["model_calls"] == 8 and plan["tokens_about"]["output"] == 8 * 256
    assert plan["cost_about"]["CNY"] == pytest.approx(sum(plan["tokens_about"].values()) / 1000) and not server.asked


def test_a_translation_of_labels_is_planned_with_its_price(
    server: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options = ("--model-option", f"base_url={server.url}/v1", "--model-option", "name=m")
    words = ("labels", "translate", "coco80", "--language", "en", *options, "--plan")
    said = invoke(*words, "--price", "100/1000 CNY").output
    assert (
        "80 labels, at most 240 calls" in said and "14,400 output tokens at most (estimated" in said and " CNY" in said
    )
    assert server.asked == [] and not list(tmp_path.iterdir())


def test_an_endpoint_that_only_fails_has_no_pace(server: Loopback, reply_location: str) -> None:
    server.answer = lambda _asked: CannedResponse("busy", 503)
    with open_reply_store(reply_location) as store:
        answer_requests(store, load(server), questions(range(4)), role="captions")
        assert not forecast_calls(store, load(server), "captions", 4).is_measured


def definition(place: Path, server: Loopback, *overrides: str) -> Any:
    options = f"{{base_url: {server.url}/v1, name: m, pause: 0, tries: 1, concurrency: 2}}"
    keys = [f"images={place / 'album'}", f"out={place / 'sets'}", "name=album", "render.size=64", "lose_at_most=null"]
    price = "captions.price={input_per_million: 2, output_per_million: 10}"
    more = ["captions.model=openai_compatible", f"captions.options={options}", "ambiguity.text_embedder=char_ngrams"]
    return load_definition(None, [*keys, *more, price, "near_duplicates.distance=null", *overrides], "recall")


@pytest.mark.thorough
def test_a_build_asks_as_often_as_planned_and_a_price_is_in_no_manifest(
    server: Loopback, tmp_path: Path, reply_location: str
) -> None:
    draw_album(tmp_path / "album", ["a", "b", "c"])
    asked, replies = [], f"replies={reply_location}"
    with active_run(BuildRun()):
        for names in (["a", "b", "c"], ["a", "b", "c", "d", "e"]):
            draw_album(tmp_path / "album", names)
            plan, before = plan_set(definition(tmp_path, server, replies)), len(server.asked)
            result = build_set(definition(tmp_path, server, replies))
            asked.append((plan["model_calls"], len(server.asked) - before))
    assert asked == [(3, 3), (2, 2)]
    assert plan["tokens_about"] == {"input": 200, "output": 40} and plan["cost_about"] == {"USD": 0.0008}
    assert "per_million" not in (result.path / "manifest.json").read_text("utf-8")


def with_budget(place: Path, server: Loopback, **limits: float) -> Any:
    return definition(place, server).model_copy(update={"budget": BudgetOptions(**limits)})


@pytest.mark.parametrize(
    ("limits", "calls", "spent"),
    [({"calls": 2}, 2, "2 calls"), ({"tokens": 120}, 2, "120 tokens"), ({"hours": 1e-9}, 0, "1e-09 hours")],
)
@pytest.mark.thorough
def test_a_spent_budget_stops_in_order_and_the_next_build_goes_on(
    server: Loopback, tmp_path: Path, limits: dict[str, float], calls: int, spent: str
) -> None:
    draw_album(tmp_path / "album", ["a", "b", "c"])
    with active_run(BuildRun()):
        with pytest.raises(BudgetSpentError) as stopped:
            build_set(with_budget(tmp_path, server, **limits))
        said = f"the budget of {spent} is spent: {calls} of 3 questions (captions) are answered, {3 - calls} remain"
        assert stopped.value.reason == said and len(server.asked) == calls
        result = build_set(with_budget(tmp_path, server, calls=3))
        assert len(server.asked) == 3, "what was answered is not asked again, and what is left fits the budget"
        assert not build_set(with_budget(tmp_path, server, calls=0)).is_new, "nothing is left to ask"
    assert '"budget"' not in (result.path / "manifest.json").read_text("utf-8")


def test_what_is_asked_side_by_side_stays_in_the_budget(server: Loopback, tmp_path: Path) -> None:
    with open_reply_store(tmp_path / "replies.sqlite") as store, pytest.raises(BudgetSpentError, match="5 of 20"):
        answer_requests(store, load(server, 8), questions(range(20)), spending=Spending(calls=5))
    assert len(server.asked) == 5


def test_tokens_that_an_endpoint_does_not_count_are_estimated() -> None:
    spending = Spending(tokens=10)
    spending.count(questions(range(1))[0], chat.Reply("二十字" * 3, "stop"))
    assert (spending.spent_tokens, spending.exhausted_limit) == (10, "tokens")


def test_a_currency_has_three_letters(server: Loopback, tmp_path: Path) -> None:
    wrong = ["captions.price={input_per_million: 2, output_per_million: 1, currency: euro}", f"images={tmp_path}"]
    with pytest.raises(UserError, match=r"captions\.price\.currency"):
        load_definition(None, ["name=a", *wrong], "recall")


def test_a_refreshed_reply_is_asked_for_again_and_found_as_of_its_time(server: Loopback, reply_location: str) -> None:
    model = load(server)
    with open_reply_store(reply_location) as store:
        first = answer_requests(store, model, questions(range(3)))
        assert store.refresh([model.identity]) == 3
        assert answer_requests(store, model, questions(range(3)), offline=True).missing == 3
        second = answer_requests(store, model, questions(range(3)))
        assert store.refresh([model.identity]) == 3, "twice in a second"
        second = answer_requests(store, model, questions(range(3)))
        assert second.calls == 3 and second.digest != first.digest
        with replies_as_of("2999-01-01T00:00:00+00:00"):
            assert answer_requests(store, model, questions(range(3)), offline=True).digest == second.digest


@pytest.mark.thorough
def test_the_next_build_asks_again_and_the_version_before_is_rebuilt(
    server: Loopback, tmp_path: Path, reply_location: str
) -> None:
    draw_album(tmp_path / "album", ["a", "b"])
    wanted = definition(tmp_path, server, f"replies={reply_location}")
    with active_run(BuildRun()):
        old = build_set(wanted)
        time.sleep(1.1)  # versions carry whole seconds
        assert refresh_replies(wanted, "m") == 2
        new = build_set(wanted)
    assert len(server.asked) == 4 and new.is_new
    with active_run(BuildRun(offline="://" not in reply_location)):
        for version in (old, new):
            assert rebuild_tables(version.path).digest == version.manifest["content_digest"]
    assert len(server.asked) == 4


@pytest.mark.thorough
def test_folders_that_share_only_a_bucket_share_what_was_paid_for(
    server: Loopback, tmp_path: Path, object_service: ObjectService, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests = []
    for name in ("one", "other"):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name / "cache"))
        (tmp_path / name).mkdir()
        draw_album(tmp_path / name / "album", ["a", "b"])
        wanted = definition(tmp_path / name, server, f"replies={object_service.url}/replies")
        with active_run(BuildRun()):
            built = build_set(wanted)
        digests.append(built.manifest["content_digest"])
        assert not list((tmp_path / name / "sets").rglob("replies.sqlite"))
        assert SECRET_KEY not in (built.path / "manifest.json").read_text("utf-8")
    assert len(server.asked) == 2 and digests[0] == digests[1]
    with active_run(BuildRun(offline=True)), pytest.raises(UserError, match=r"--offline.*reply store on disk"):
        build_set(wanted)


def test_a_model_without_replies_is_one_line(server: Loopback, tmp_path: Path) -> None:
    draw_album(tmp_path / "album", ["a"])
    wanted = definition(tmp_path, server)
    with open_reply_store(wanted.out / wanted.name / "replies.sqlite") as store:
        answer_requests(store, load(server), questions(range(1)))
    with pytest.raises(UserError, match=r"did you mean 'm'|choose from m"):
        refresh_replies(wanted, "mm")


def test_a_build_whose_endpoint_nobody_runs_reads_no_image(tmp_path: Path) -> None:
    draw_album(tmp_path / "album", ["a"])
    with loopback(answer) as server:
        wanted = definition(tmp_path, server)
    with active_run(BuildRun()), pytest.raises(UserError, match="no server seems to listen there") as refused:
        build_set(wanted)
    assert refused.value.stage == "check endpoint"
    assert not (tmp_path / "sets").exists(), "nothing was scanned"


@pytest.mark.thorough
def test_an_endpoint_that_has_answered_may_be_gone_where_replies_suffice(tmp_path: Path) -> None:
    draw_album(tmp_path / "album", ["a"])
    with loopback(answer) as server, active_run(BuildRun()):
        wanted = definition(tmp_path, server)
        assert build_set(wanted).is_new and len(server.asked) == 1, "the check asks nothing"
    reporter = Listener()
    with active_run(BuildRun(reporter)):
        assert not build_set(wanted).is_new
    told = [line for line in reporter.lines if line.startswith("endpoint of captions")]
    assert len(told) == 1 and "no server seems to listen there" in told[0], reporter.lines


QUESTION = "用五个字说出图片里有什么，{花括号}也照写"
RULES = prompts.load_template("zh/cleaning.yaml").text


def write_definition(folder: Path, keys: str) -> Path:
    (folder / "mine.yaml").write_text(f"name: mine\nkind: recall\nimages: {folder / 'album'}\n{keys}", encoding="utf-8")
    return folder / "mine.yaml"


@pytest.mark.thorough
def test_own_files_are_asked_applied_and_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The paths are relative to the definition, and not to where the command runs."""
    draw_album(tmp_path / "album", ["lake", "park"])
    (tmp_path / "question.txt").write_text(f"\ufeff{QUESTION}\r\n", encoding="utf-8")
    (tmp_path / "rules.yaml").write_text(RULES.replace("openings:\n", "openings:\n  - '诗曰'\n", 1), encoding="utf-8")
    keys = "prompt_files: {zh/poem: question.txt}\ncleaning_files: {zh: rules.yaml}\ncaptions: {prompt: zh/poem}"
    path = write_definition(tmp_path, keys)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    asked_texts = []

    def answer(asked: ReceivedRequest) -> CannedResponse:
        asked_texts.append(json.dumps(asked.json, ensure_ascii=False))
        return caption_reply(["诗曰湖边有一只白色的鸟", "公园里有一辆红色的自行车"][len(asked_texts) - 1])

    with loopback(answer) as server:
        options = f"captions.options={{base_url: {server.url}/v1, name: m, pause: 0, tries: 1, concurrency: 1}}"
        given = ["captions.model=openai_compatible", options, f"out={tmp_path / 'sets'}", "render.size=64"]
        definition = load_definition(path, [*given, "ambiguity.text_embedder=char_ngrams"], "recall")
        with active_run(BuildRun()):
            built = set_files.read_set(build_set(definition).path)
    assert len(asked_texts) == 2 and all(QUESTION in text for text in asked_texts)
    queries = built.tables.queries
    assert sorted(queries["text"]) == ["公园里有一辆红色的自行车", "湖边有一只白色的鸟"]
    assert set(queries["style"]) == {"poem"}
    recorded = {prompt["name"]: prompt["sha256"] for prompt in built.manifest["prompts"]}
    assert recorded["zh/poem"] == prompts.PromptTemplate("zh/poem", QUESTION).sha256
    assert recorded["zh/cleaning.yaml"] != prompts.load_template("zh/cleaning.yaml").sha256
    assert recorded["en/cleaning.yaml"] == prompts.load_template("en/cleaning.yaml").sha256


def test_a_file_that_is_gone_stops_a_build_before_it_reads_an_image(tmp_path: Path) -> None:
    path = write_definition(tmp_path, "prompt_files: {zh/mine: gone.txt}\ncaptions: {prompt: zh/mine, model: human}")
    definition = load_definition(path, ["captions.options.path=x"], "recall")
    with pytest.raises(UserError, match=r"gone\.txt \(read prompt\).*fix the path in the definition"):
        check_before_build(definition)


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ("prompt_files: {zh/mine: a.txt}", "prompt_files has zh/mine, but the definition uses no prompt of that name"),
        ("prompt_files: {mine: a.txt}\ncaptions: {prompt: mine}", "'mine' is not a prompt name; write language/name"),
        ("cleaning_files: {fr: a.yaml}", "cleaning_files"),
    ],
)
def test_a_file_that_nothing_would_use_is_refused(tmp_path: Path, keys: str, reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        load_definition(write_definition(tmp_path, keys), [], "recall")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is empty"),
        ("no field", r"does not have the same fields as zh/topics.* it needs .*{topic_samples}"),
        ("{topic_samples} {typo}", r"does not have the same fields as zh/topics"),
        ("x" * ((1 << 20) + 1), "is larger than one megabyte"),
    ],
)
def test_a_prompt_that_could_not_be_asked_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "mine.txt").write_text(text)
    with pytest.raises(UserError, match=reason):
        load_prompt("zh/mine", {"zh/mine": str(tmp_path / "mine.txt")}, like="zh/topics")
    (tmp_path / "mine.txt").write_text("Such as:\n{topic_samples}")
    own = load_prompt("zh/mine", {"zh/mine": str(tmp_path / "mine.txt")}, like="zh/topics")
    assert own.fill(topic_samples="a tree") == "Such as:\na tree"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("openings:", "openings: a\nformer:", "openings is not a list of patterns"),
        ("openings:\n", "openings:\n  - '(open'\n", r"\(open"),
        ("openings:\n", "openings:\n  - 12\n", "12"),
        ("openings:\n", "openings:\n  - '{nothing}'\n", "nothing"),
        ("words:", "names:", "words"),
        ("openings:\n", "openings: [\n", "is not valid YAML"),
    ],
)
def test_rules_with_a_fault_name_the_file(tmp_path: Path, old: str, new: str, reason: str) -> None:
    path = tmp_path / "rules.yaml"
    assert old in RULES
    path.write_text(RULES.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(UserError, match=reason) as caught:
        load_cleaning_rules({"zh": str(path)})
    assert "rules.yaml" in str(caught.value) and "read cleaning rules" in str(caught.value)
