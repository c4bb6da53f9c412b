"""Topic samples that a person wrote: YAML with a list of objects per topic."""

import hashlib
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from backends.bounded_yaml import load_yaml
from backends.file_errors import translate_read_errors
from backends.regular_files import open_regular
from builders.errors import UserError

_STAGE = "read topic samples"
_LIMIT = 1 << 20  # bytes


def read_topic_samples(path: Path) -> tuple[dict[str, list[str]], str]:
    """Reads the samples of a file, and the sha256 of its bytes. Raises UserError."""
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


class _UniqueKeyLoader(yaml.SafeLoader):
    """Refuses repeated keys, of which YAML would silently drop one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [key.value for key, _ in node.value]
        if twice := next((key for key in keys if keys.count(key) > 1), None):
            raise yaml.constructor.ConstructorError(None, None, f"{twice} stands twice", node.start_mark)
        return super().construct_mapping(node, deep)
