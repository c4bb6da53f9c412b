"""Topic samples that a person wrote: YAML with a list of objects per topic.

An object may be described as in the seed article, its parts divided by a semicolon. `by_topic` shows the model what a
thing is and how it looks (鲨鱼；是鲨总目动物的通称；通常是灰色), `visual_elements` the two elements of a phrase
(长毛的猫；猫；长毛).
"""

import hashlib
import re
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

import prompts
from builders.generated.definition import GeneratedDefinition
from builders.generated.row_rules import normalize_text
from builders.generated.topic_pools import STRATEGIES
from querytruth.backends.files.safe_paths import open_regular
from querytruth.backends.files.text_formats import load_yaml
from querytruth.errors import UserError, translate_read_errors

_STAGE = "read topic samples"
_LIMIT = 1 << 20  # bytes


def read_topic_samples(path: Path) -> tuple[dict[str, list[str]], str]:
    """Reads the samples of a file as they are written, and the sha256 of its bytes. Raises UserError."""
    with translate_read_errors(_STAGE, path, "fix topics.samples"):
        with open_regular(path) as file:
            data = file.read(_LIMIT + 1)
        if len(data) > _LIMIT:
            raise UserError(_STAGE, path, "has more than a megabyte", "give a few topics with a few objects each")
        return parse_topic_samples(data.decode("utf-8-sig"), path), hashlib.sha256(data).hexdigest()


def parse_topic_samples(text: str, source: object) -> dict[str, list[str]]:
    """Returns objects by topic. Raises UserError for repeated topics and for what is no list of texts."""
    try:
        data = load_yaml(text, _UniqueKeyLoader)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{source} line {mark.line + 1}" if mark else source
        raise UserError(_STAGE, where, f"is no YAML ({getattr(error, 'problem', error)})", "fix the line") from None
    if not isinstance(data, dict) or not data:
        raise UserError(_STAGE, source, "holds no topics", "write lines such as “食物: [饺子, 汉堡]”")
    for topic, objects in data.items():
        if not isinstance(topic, str) or not isinstance(objects, list) or not objects:
            raise UserError(_STAGE, f"{source}: {topic}", "is no topic with a list of objects", "fix that line")
        for text in objects:
            if not isinstance(text, str) or not text.strip():
                raise UserError(_STAGE, f"{source}: {topic}", f"{text!r} is no text", "put it in quotes")
    return {topic.strip(): [text.strip() for text in objects] for topic, objects in data.items()}


def load_samples(definition: GeneratedDefinition) -> tuple[dict[str, list[str]], str]:
    """Returns people's samples by topic as they are written, and their digest: the definition's, or the shipped ones of
    the language and the strategy. Raises UserError."""
    if definition.topics.samples is not None:
        return read_topic_samples(Path(definition.topics.samples))
    name = "topic_samples" if STRATEGIES[definition.strategy].proposes_topics else "described_samples"
    shipped = prompts.load_template(f"{definition.language}/{name}.yaml")
    return parse_topic_samples(shipped.text, shipped.name), shipped.sha256


def list_names(samples: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Returns the objects by topic, without what a sample says of them."""
    return {topic: [_split(text)[0] for text in objects] for topic, objects in samples.items()}


def list_notes(samples: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """Returns what samples say of their objects, by `normalize_text` of the object: of the article's form
    鲨鱼；是鲨总目动物的通称；通常是灰色 its two last parts."""
    split = (_split(text) for objects in samples.values() for text in objects)
    return {normalize_text(name): notes for name, notes in split if notes}


def is_made_of(name: str, notes: Sequence[str]) -> bool:
    """Whether the notes are the two visual elements of a phrase: 猫 and 长毛 of 长毛的猫."""
    return len(notes) == 2 and all(normalize_text(note) in normalize_text(name) for note in notes)


def _split(text: str) -> tuple[str, tuple[str, ...]]:
    name, *notes = (part.strip() for part in re.split("[；;]", text))
    return (name, tuple(note for note in notes if note)) if name else (text.strip(), ())


class _UniqueKeyLoader(yaml.SafeLoader):
    """Refuses repeated keys, of which YAML would silently drop one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [key.value for key, _ in node.value]
        if twice := next((key for key in keys if keys.count(key) > 1), None):
            raise yaml.constructor.ConstructorError(None, None, f"{twice} stands twice", node.start_mark)
        return super().construct_mapping(node, deep)
