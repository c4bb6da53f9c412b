"""YAML from outside: small, shallow, and no larger by its aliases."""

from typing import Any

import yaml

MAX_YAML_BYTES = 1 << 20
_MAX_DEPTH = 50
_MAX_NODES = 100_000  # each alias counts as all that it stands for


def load_yaml(text: str, loader_class: type[yaml.SafeLoader] = yaml.SafeLoader) -> Any:
    """Returns the value of one document. Raises yaml.YAMLError, also for one that is too large, deep or expanding."""
    if len(text) > MAX_YAML_BYTES:
        raise yaml.YAMLError(f"has more than {MAX_YAML_BYTES >> 20} MB")
    loader = loader_class(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _count_nodes(node, 0, {})
        return loader.construct_document(node)
    except RecursionError:
        raise yaml.YAMLError("is nested too deeply") from None
    finally:
        loader.dispose()


def _count_nodes(node: yaml.Node, depth: int, known: dict[int, int]) -> int:
    """Returns the number of nodes with all aliases written out. Raises yaml.YAMLError beyond the limits."""
    if depth > _MAX_DEPTH:
        raise yaml.YAMLError(f"is nested more than {_MAX_DEPTH} deep")
    if id(node) not in known:
        _check_keys(node)
        parts = node.value if isinstance(node, yaml.CollectionNode) else []
        inner = [part for pair in parts for part in pair] if isinstance(node, yaml.MappingNode) else parts
        known[id(node)] = 1 + sum(_count_nodes(part, depth + 1, known) for part in inner)
    if known[id(node)] > _MAX_NODES:
        raise yaml.YAMLError(f"has aliases that stand for more than {_MAX_NODES:,} values")
    return known[id(node)]


def _check_keys(node: yaml.Node) -> None:
    """Raises yaml.YAMLError with the line of a key that a mapping has twice: PyYAML takes the last value silently."""
    seen = set[str]()
    for key, _ in node.value if isinstance(node, yaml.MappingNode) else []:
        if isinstance(key, yaml.ScalarNode) and key.value in seen and key.value != "<<":
            raise yaml.MarkedYAMLError(problem=f"has the key {key.value!r} twice", problem_mark=key.start_mark)
        seen.add(str(key.value))
