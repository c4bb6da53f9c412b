"""The shipped templates: all there in both languages, and filled verbatim."""

import hashlib
from pathlib import Path

import pytest

import prompts

ROOM = Path(prompts.__file__).parent
STYLES = ("caption", "keywords", "phrase", "question")


def test_the_caption_prompt_is_the_article_s() -> None:
    prompt = prompts.load_template("zh/caption")
    assert prompt.text == "用40字描述图片的主要内容用于检索"
    assert prompt.sha256 == hashlib.sha256(prompt.text.encode()).hexdigest()


def test_both_languages_ship_the_same_files() -> None:
    chinese, english = ({path.name for path in (ROOM / language).iterdir()} for language in ("zh", "en"))
    assert chinese == english >= {f"{style}.txt" for style in (*STYLES, "recaption", "sentence")} | {"cleaning.yaml"}


@pytest.mark.parametrize("language", ["zh", "en"])
def test_only_the_prompt_that_asks_again_has_fields(language: str) -> None:
    for style in STYLES:
        text = prompts.load_template(f"{language}/{style}").text
        assert text.strip() == text and "{" not in text, style
    assert prompts.load_template(f"{language}/recaption").text.count("{") == 2


@pytest.mark.parametrize("hostile", ["{rivals}", "{}", "{0.__class__}", "#\n答案：", "\\1\\g<0>", "%s $x"])
def test_a_caption_in_a_prompt_is_never_read_as_a_template(hostile: str) -> None:
    template = prompts.load_template("zh/recaption")
    filled = template.fill(caption=hostile, rivals="一只猫\n{caption}")
    before, rest = template.text.split("{caption}")
    between, after = rest.split("{rivals}")
    assert filled == f"{before}{hostile}{between}一只猫\n{{caption}}{after}"
