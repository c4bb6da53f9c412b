"""What `querytruth init recall` asks on a terminal: a real one, typed at by a person."""

import os
import pty
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from builders.recall.definition import RecallDefinition
from flows.definition_loader import load_definition

QUESTIONS = ("Folder of the images", "Address of the endpoint", "Model that writes the captions", "zh or en")


class Typist:
    """A person at a terminal, in front of a command."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.terminal, inner = pty.openpty()
        command = [sys.executable, "-m", "querytruth", "init", "recall", *arguments]
        self.process = subprocess.Popen(command, cwd=folder, stdin=inner, stdout=inner, stderr=inner)
        os.close(inner)
        self.screen = ""

    def read_until(self, text: str) -> None:
        while text not in self.screen:
            assert select.select([self.terminal], [], [], 60)[0], f"no {text!r} in {self.screen!r}"
            self.screen += os.read(self.terminal, 4096).decode()

    def type(self, text: str) -> None:
        os.write(self.terminal, text.encode())

    def leave(self) -> int:
        """The exit status, once all that the command prints is read."""
        try:
            while more := os.read(self.terminal, 4096):
                self.screen += more.decode()
        except OSError:  # the other end is closed
            pass
        os.close(self.terminal)
        return self.process.wait()


def answer(folder: Path, answers: list[str], *arguments: str) -> Typist:
    typist = Typist(folder, *arguments)
    for question, reply in zip(QUESTIONS, answers, strict=True):
        typist.read_until(question)
        typist.type(f"{reply}\n")
    return typist


def read_definition(folder: Path) -> RecallDefinition:
    definition = load_definition(folder / "recall.yaml", [], "recall")
    assert isinstance(definition, RecallDefinition)
    return definition


@pytest.mark.thorough
def test_four_answers_make_a_definition_that_can_be_built(tmp_path: Path) -> None:
    typist = answer(tmp_path, ["我的照片", "http://127.0.0.1:9/v1", "qwen3-vl", "en"])
    assert typist.leave() == 0
    assert "Next: querytruth build recall recall.yaml --plan" in typist.screen
    definition = read_definition(tmp_path)
    assert definition.images == str(tmp_path / "我的照片") and definition.captions.prompt == ["en/caption"]
    assert definition.captions.model == "openai_compatible"
    assert definition.captions.options["base_url"] == "http://127.0.0.1:9/v1"
    assert definition.captions.options["name"] == "qwen3-vl"


@pytest.mark.slow
def test_enter_alone_takes_what_stands_in_brackets(tmp_path: Path) -> None:
    typist = answer(tmp_path, ["", "", "", ""])
    assert typist.leave() == 0
    assert "(images)" in typist.screen and "(Qwen/Qwen3-VL-8B-Instruct)" in typist.screen
    definition = read_definition(tmp_path)
    assert definition.images == str(tmp_path / "images") and definition.captions.model == "qwen_vl"
    assert definition.captions.prompt == ["zh/caption"]


@pytest.mark.slow
def test_what_an_option_gives_is_not_asked(tmp_path: Path) -> None:
    typist = Typist(tmp_path, "--images", "photos", "--endpoint", "http://127.0.0.1:9/v1", "--model", "m")
    typist.read_until("zh or en")
    typist.type("zh\n")
    assert typist.leave() == 0
    assert not any(question in typist.screen for question in QUESTIONS[:3])


@pytest.mark.slow
def test_a_wrong_answer_is_one_line_and_writes_nothing(tmp_path: Path) -> None:
    typist = answer(tmp_path, ["photos", "localhost:11434", "m", "zh"])
    assert typist.leave() == 1
    assert (
        "localhost:11434 (init): is not an http address. Next: give an address such as http://localhost:11434/v1"
        in " ".join(typist.screen.split())
    )
    assert "Traceback" not in typist.screen and not (tmp_path / "recall.yaml").exists()


@pytest.mark.slow
def test_ctrl_c_at_a_question_writes_nothing(tmp_path: Path) -> None:
    typist = Typist(tmp_path)
    typist.read_until(QUESTIONS[0])
    typist.process.send_signal(signal.SIGINT)
    assert typist.leave() in (130, 1)
    assert "Traceback" not in typist.screen and not (tmp_path / "recall.yaml").exists()
