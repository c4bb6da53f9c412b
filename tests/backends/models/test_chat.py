"""Chat models by name, their options, and the replay of what one of them said."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from pydantic import BaseModel

from querytruth.backends.models import chat
from querytruth.backends.models.cached_replies import answer_requests
from querytruth.backends.models.chat import ChatAnswer, ChatRequest, Failure, Message, OnAnswers, Reply, always_continue
from querytruth.backends.models.chat.captions_file import CaptionsFileOptions
from querytruth.backends.models.chat.openai_compatible import OpenAICompatibleOptions
from querytruth.backends.models.chat.qwen import QwenOptions
from querytruth.backends.models.chat.qwen_vl import QwenVLOptions
from querytruth.backends.models.chat.replay import ReplayOptions
from querytruth.backends.models.reply_store import open_reply_store
from querytruth.backends.plugins import ModelIdentity
from querytruth.errors import UserError

QUESTIONS = [ChatRequest((Message("user", str(n)),)) for n in range(3)]


class Parrot:
    is_recorded = False

    def __init__(self, identity: ModelIdentity) -> None:
        self.identity = identity

    def reply(self, requests: Sequence[ChatRequest], on_answers: OnAnswers = always_continue) -> list[ChatAnswer]:
        answers: list[ChatAnswer] = [Reply(self.identity.name + r.messages[0].text, "stop") for r in requests]
        on_answers(list(enumerate(answers)))
        return answers


def test_an_unknown_model_names_the_nearest_and_all() -> None:
    assert chat.CHAT_MODELS.list_plugins() == [
        "captions_file",
        "cross_encoder",
        "embedder",
        "file_facts",
        "human",
        "openai_compatible",
        "qwen",
        "qwen_vl",
        "replay",
        "rerank",
        "scores_file",
    ]
    with pytest.raises(UserError, match="did you mean 'qwen_vl'"):
        chat.load_chat_model("qwen-vl")
    with pytest.raises(UserError, match=", ".join(chat.CHAT_MODELS.list_plugins())):
        chat.load_chat_model("../secrets")


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("captions_file", CaptionsFileOptions),
        ("openai_compatible", OpenAICompatibleOptions),
        ("qwen", QwenOptions),
        ("qwen_vl", QwenVLOptions),
        ("replay", ReplayOptions),
    ],
)
def test_an_unknown_option_is_one_line_that_names_it(model: str, options: type[BaseModel]) -> None:
    required = {"path": "x", "base_url": "http://h", "name": "n", "replies": "r"}
    given = {name: value for name, value in required.items() if name in options.model_fields}
    with pytest.raises(UserError, match=f"{model}: colour.*unknown option") as told:
        chat.load_chat_model(model, **given, colour="red")
    assert "red" not in str(told.value)
    if model not in ("qwen", "qwen_vl"):  # those know which model they are by default
        with pytest.raises(UserError, match="Field required"):
            chat.load_chat_model(model)


def test_nothing_heavy_is_imported_before_it_is_chosen() -> None:
    code = (
        "import sys, querytruth.backends.models.cached_replies, querytruth.backends.models.chat as chat;"
        "chat.CHAT_MODELS.list_plugins();"
        "print([m for m in ('torch', 'transformers', 'requests', 'pandas', 'huggingface_hub') if m in sys.modules]);"
        "chat.load_chat_model('openai_compatible', base_url='http://h', name='n');"
        "import querytruth.backends.models.chat.qwen_vl, querytruth.backends.models.embedders.clip;"
        "import querytruth.backends.models.embedders.sentence_transformer;"
        "print([m for m in ('torch', 'transformers', 'pandas', 'huggingface_hub') if m in sys.modules])"
    )
    root = Path(__file__).parents[3]
    run = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n[]\n"


def test_a_replay_answers_as_the_model_did_and_to_nothing_else(tmp_path: Path) -> None:
    path, other = tmp_path / "replies.sqlite", open_reply_store(tmp_path / "other.sqlite")
    with open_reply_store(path) as store:
        first = answer_requests(store, Parrot(ModelIdentity("tiny", "r1", {"beams": 5})), QUESTIONS[:2])
    replay = chat.load_chat_model("replay", replies=path)
    again = answer_requests(other, replay, QUESTIONS, offline=True)
    assert again.answers[:2] == first.answers
    assert isinstance(again.answers[2], Failure)
    assert (again.answers[2].reason, again.calls, again.hits, again.missing) == ("not_recorded", 0, 2, 1)
    assert replay.identity == ModelIdentity("tiny", "r1", {"beams": 5}), "the manifest says who spoke"
    assert answer_requests(other, replay, QUESTIONS[:2]).digest == first.digest


def test_of_several_recorded_models_one_has_to_be_named(tmp_path: Path) -> None:
    path = tmp_path / "replies.sqlite"
    identities = [ModelIdentity("one", "r1"), ModelIdentity("one", "r2"), ModelIdentity("two", "", {"beams": 5})]
    with open_reply_store(path) as store:
        for identity in identities:
            answer_requests(store, Parrot(identity), QUESTIONS[:1])
    with pytest.raises(UserError, match="3 recorded models match"):
        chat.load_chat_model("replay", replies=str(path))
    with pytest.raises(UserError, match="2 recorded models match"):
        chat.load_chat_model("replay", replies=str(path), name="one")
    with pytest.raises(UserError, match=r"0 recorded models match.*two \(beams 5\)"):
        chat.load_chat_model("replay", replies=str(path), name="three")
    assert chat.load_chat_model("replay", replies=str(path), name="one", revision="r2").identity == identities[1]
    assert chat.load_chat_model("replay", replies=str(path), parameters={"beams": 5}).identity == identities[2]
    with pytest.raises(UserError, match="the store has no recorded answers"):
        chat.load_chat_model("replay", replies=str(tmp_path / "none.sqlite"))


def test_a_password_in_a_replays_address_is_refused() -> None:
    with pytest.raises(UserError, match="would be published") as told:
        chat.load_chat_model("replay", replies="postgresql://me:hidden-word@127.0.0.1/db")
    assert "hidden-word" not in str(told.value)
