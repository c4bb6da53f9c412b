"""Topics and objects written by hand: read whole, or a line that says what is amiss."""

from pathlib import Path

import pytest

import prompts
from builders.generated.row_rules import normalize_text
from builders.generated.topic_rounds import is_made_of, list_names, list_notes, parse_topic_samples, read_topic_samples
from querytruth.errors import UserError


def test_objects_come_by_topic_with_the_file_s_digest(tmp_path: Path) -> None:
    path = tmp_path / "topics.yaml"
    path.write_bytes("\ufeff食物: [饺子, ' 汉堡 ']\n动物:\n  - 狮子\n".encode())
    samples, sha256 = read_topic_samples(path)
    assert samples == {"食物": ["饺子", "汉堡"], "动物": ["狮子"]}
    assert len(sha256) == 64


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "contains no topics"),
        ("[a, b]", "contains no topics"),
        ("食物: 饺子", "食物.*must be a topic with a list"),
        ("食物: []", "食物.*must be a topic with a list"),
        ("食物: [饺子, 1]", "1 is not text"),
        ("食物: [yes]", "True is not text"),
        ("食物: ['']", "'' is not text"),
        ("1: [a]", "1.*must be a topic"),
        ("食物: [饺子\n", "line 2.*is not valid YAML"),
        ("食物: [饺子]\n食物: [汉堡]\n", "has the key '食物' twice"),
    ],
)
def test_what_is_amiss_is_named(text: str, line: str) -> None:
    with pytest.raises(UserError, match=line):
        parse_topic_samples(text, "topics.yaml")


def test_a_file_that_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        read_topic_samples(tmp_path / "none.yaml")
    (tmp_path / "gbk.yaml").write_bytes("食物: [饺子]".encode("gbk"))
    with pytest.raises(UserError, match="is not UTF-8"):
        read_topic_samples(tmp_path / "gbk.yaml")
    (tmp_path / "huge.yaml").write_bytes(b"#" * (1 << 20) + b"\n")
    with pytest.raises(UserError, match="larger than one megabyte"):
        read_topic_samples(tmp_path / "huge.yaml")


@pytest.mark.parametrize("language", ["zh", "en"])
def test_five_topics_are_shipped_in_each_language(language: str) -> None:
    shipped = prompts.load_template(f"{language}/topic_samples.yaml")
    samples = parse_topic_samples(shipped.text, shipped.name)
    assert len(samples) == 5
    assert all(len(objects) >= 5 for objects in samples.values())
    described = prompts.load_template(f"{language}/described_samples.yaml")
    of_forms = parse_topic_samples(described.text, described.name)
    notes, names = list_notes(of_forms), [name for some in list_names(of_forms).values() for name in some]
    assert list(of_forms) == list(samples) and len(notes) == len(names) == 20
    pairs = [name for name in names if is_made_of(name, notes[normalize_text(name)])]
    assert len(pairs) == 5, "of each topic one phrase of two visual elements"


def test_a_sample_in_the_article_s_form_gives_its_name() -> None:
    text = "动物: [鲨鱼；是鲨总目动物的通称；通常是灰色, 狸花猫；是一种猫，通常是灰色, 长毛的猫；猫；长毛, 狗]"
    samples = parse_topic_samples(text, "topics.yaml")
    assert list_names(samples) == {"动物": ["鲨鱼", "狸花猫", "长毛的猫", "狗"]}
    assert list_notes(samples) == {
        "鲨鱼": ("是鲨总目动物的通称", "通常是灰色"),
        "狸花猫": ("是一种猫，通常是灰色",),
        "长毛的猫": ("猫", "长毛"),
    }
    assert is_made_of("长毛的猫", ("猫", "长毛")) and not is_made_of("鲨鱼", ("是鲨总目动物的通称", "通常是灰色"))
