"""A stand-in for a chat model that thinks of topics and objects: what it says hangs on the question alone, and it
repeats itself, drifts, talks and refuses at known rates."""

import random
import re
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builders.generated.definition import GeneratedDefinition
from builders.generated.stages import StageResult, run_objects_stage, run_topics_stage
from querytruth.backends.steps import BuildRun, active_run
from querytruth.records import stable_hash
from tests.loopback import CannedResponse, ReceivedRequest
from tests.worlds import chat_reply

SOURCE = "tiny.yaml"
_TOPIC = re.compile("(?:当前主题是：|需要是)(.*?)(?:。|的名词)$", re.MULTILINE)
_LISTED = re.compile(r"^(?:\d+\. |答案：)(.*)$", re.MULTILINE)
_SAMPLE = re.compile("^答案：根据#(.*)#主题.*?：(.*)$", re.MULTILINE)
_FIRST, _COUNT = 0x4E00, 20_000  # characters that words are made of


def make_word(*seed: object, length: int = 3) -> str:
    """A word that no other seed has."""
    rng = random.Random(stable_hash(*map(str, seed)))
    return "".join(chr(_FIRST + rng.randrange(_COUNT)) for _ in range(length))


@dataclass(frozen=True)
class StubGenerator:
    """`repeat_rate`, `refusal_rate`, `talk_rate`: shares of rows and replies; `longer`: characters more for every
    hundred rounds; `repeated_word`: the one thing that all its objects are made of; `vocabulary`: objects that it knows
    of each topic."""

    repeat_rate: float = 0.2
    refusal_rate: float = 0.05
    talk_rate: float = 0.2
    longer: float = 0.0
    repeated_word: str = ""
    vocabulary: int = 400
    topics: int = 30

    def reply(self, prompt: str) -> str:
        rng = random.Random(stable_hash("stub", prompt))
        if rng.random() < self.refusal_rate:
            return "抱歉，我无法提供这样的内容。"
        topic = _TOPIC.search(prompt)
        if "视觉元素" in prompt:
            text = self._phrases(prompt, rng)
        else:
            text = self._objects(topic.group(1), prompt, rng) if topic else self._topics(prompt, rng)
        return f"好的，以下是结果：\n\n{text}\n\n希望对您有帮助！" if rng.random() < self.talk_rate else text

    def _phrases(self, prompt: str, rng: random.Random) -> str:
        listed = re.findall(r"^\d+\. (.*)$", self._objects("一切", prompt, rng), re.MULTILINE)
        thought = "思考：我决定选择（1）个视觉元素，最终选择的视觉元素是（{0}）\n答案：{0}"
        return "\n\n".join(thought.format(text) for text in listed)

    def _objects(self, topic: str, prompt: str, rng: random.Random) -> str:
        shown = _LISTED.findall(re.split("范例|例子", prompt)[-1])
        grown = int(self.longer * len({*shown}) * rng.random()) if self.longer else 0
        rows = []
        for _ in range(5):
            if shown and rng.random() < self.repeat_rate:
                rows.append(rng.choice(shown))
            elif self.repeated_word:
                rows.append(make_word(topic, rng.randrange(self.vocabulary), length=2) + self.repeated_word)
            else:
                longest = max(map(len, shown)) if self.longer else 3
                rows.append(make_word(topic, rng.randrange(self.vocabulary), length=min(longest + grown, 14)))
        return "\n".join(f"{number}. {row}" for number, row in enumerate(rows, start=1))

    def _topics(self, prompt: str, rng: random.Random) -> str:
        known = [topic for topic, _ in _SAMPLE.findall(prompt)]
        number = rng.randrange(self.topics)
        topic = rng.choice(known) if rng.random() < 0.3 else make_word("topic", number, length=2)
        objects = "，".join(f"#{make_word(topic, rng.randrange(self.vocabulary))}#" for _ in range(6))
        return f"思考：选择主题#{topic}#\n答案：根据#{topic}#主题，我想出了#物体#：{objects}"


class Listener:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.bars: list[tuple[str, int, str]] = []

    def log(self, text: str) -> None:
        self.lines.append(text)

    def bar(self, title: str, total: int, unit: str) -> Any:
        self.bars.append((title, total, unit))
        return nullcontext(lambda _count: None)


def answering(stub: StubGenerator) -> Callable[[ReceivedRequest], Any]:
    return lambda asked: stub_reply(stub.reply(prompt_of(asked)))


def prompt_of(asked: ReceivedRequest) -> str:
    return str(asked.json["messages"][0]["content"])


def stub_reply(text: str, finish_reason: str = "stop") -> CannedResponse:
    return chat_reply(text, finish_reason, {"prompt_tokens": 100, "completion_tokens": 20})


def define_stages(folder: Path, url: str, name: str = "tiny", **keys: Any) -> GeneratedDefinition:
    options = {"base_url": url, "name": "stub", "pause": 0.001, "tries": 2, "concurrency": 4, **keys.pop("options", {})}
    topics = {"model": "openai_compatible", "options": options, "rounds": 8, **keys.pop("topics", {})}
    objects = {"embedder": "char_ngrams", "rounds": 6, **keys.pop("objects", {})}
    data = {"kind": "generated", "name": name, "out": folder, "topics": topics, "objects": objects, **keys}
    return GeneratedDefinition.model_validate(data)


def run_both_stages(wanted: GeneratedDefinition, **run: Any) -> tuple[StageResult, StageResult]:
    with active_run(BuildRun(**run)):
        return run_topics_stage(wanted, SOURCE), run_objects_stage(wanted, SOURCE)


def stage_files(folder: Path) -> dict[str, bytes]:
    """All that the stages wrote, but the reply store."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "replies.sqlite" not in path.name
    }
