"""A transcript: the answers of a model as lines that a person can read, found by the whole question."""

from pathlib import Path

import pytest

from querytruth.backends.models import chat
from querytruth.backends.models.chat import ChatRequest, Failure, GenerationParameters, Message, Reply
from querytruth.backends.models.stored_answers import Transcript, reply_key
from querytruth.backends.plugins import ModelIdentity
from querytruth.errors import UserError
from tests.flows.transcript_recording import format_header, format_line

MODEL = ModelIdentity("someone", "r1", {"temperature": 0.0})


def asked(text: str, number: int = 1) -> ChatRequest:
    return ChatRequest((Message("user", text),), GenerationParameters(max_tokens=9), number=number, language="zh")


QUESTION, SEPARATED = asked("你好吗？"), Reply("好\u2028的\n\n谢谢", "length")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    lines = [format_header(MODEL), format_line(QUESTION.cache_key_fields(), SEPARATED)]
    (tmp_path / "said.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    return tmp_path / "said.jsonl"


def test_the_same_question_has_its_answer_and_another_round_none(path: Path) -> None:
    transcript = Transcript(path)
    key, other = reply_key(MODEL, QUESTION), reply_key(MODEL, asked("你好吗？", number=2))
    assert transcript.identities() == [MODEL]
    assert transcript.find([key, other]) == {key: SEPARATED}


def test_replay_answers_from_a_transcript_under_the_recorded_name(path: Path) -> None:
    model = chat.load_chat_model("replay", replies=str(path))
    assert (model.identity, model.is_recorded) == (MODEL, True)
    good, missing = model.reply([QUESTION, asked("再见")])
    assert good == SEPARATED
    assert isinstance(missing, Failure) and missing.reason == "not_recorded"


@pytest.mark.parametrize(
    ("line", "number"),
    [("", 2), ("{", 2), ("[]", 2), ('{"request": {}, "reply": 3, "finish_reason": "stop"}', 2)],
)
def test_a_line_that_is_no_answer_is_named(path: Path, line: str, number: int) -> None:
    path.write_text(f"{format_header(MODEL)}\n{line}\n{line}x\n", "utf-8")
    with pytest.raises(UserError, match=f"said.jsonl line {number}.*is not a line of a transcript"):
        Transcript(path)


@pytest.mark.thorough
def test_without_a_model_or_a_file_it_is_none(path: Path) -> None:
    path.write_text("", "utf-8")
    with pytest.raises(UserError, match="line 1"):
        Transcript(path)
    with pytest.raises(UserError, match="No such file"):
        chat.load_chat_model("replay", replies=str(path.with_name("gone.jsonl")))
