"""Equivalent queries: queries that ask the same, and therefore have one ground truth.

Queries for the same labels (in every language and style; those of a family only with the same kind and order), captions
of one image in one style, and queries for one object of a topic ask the same. Any other query is equivalent to itself
alone.
"""

from collections.abc import Collection, Iterator

import pandas as pd

Meaning = tuple[str, ...]


def group_equivalent_queries(queries: pd.DataFrame) -> dict[str, tuple[str, ...]]:
    """Returns per query id the ids of all queries that ask the same, itself included: Chinese first, then by length of
    text and by id."""
    members: dict[Meaning, list[tuple[bool, int, str]]] = {}
    columns = queries["query_id"], queries["text"], queries["language"], list_meanings(queries)
    for query_id, text, language, meaning in zip(*columns, strict=True):
        members.setdefault(meaning, []).append((language != "zh", len(text), query_id))
    groups = [tuple(query_id for _, _, query_id in sorted(group)) for group in members.values()]
    return {query_id: group for group in groups for query_id in group}


def list_meanings(queries: pd.DataFrame) -> list[Meaning]:
    """Returns per query what it asks for, equal for equivalent queries: a kind (`labels`, `family`, `caption`,
    `object`, or `query` for one without equivalents) and what is asked for."""
    return list(_iterate_meanings(queries))


def _iterate_meanings(queries: pd.DataFrame) -> Iterator[Meaning]:
    missing = pd.Series([None] * len(queries), dtype="object")
    names = ("query_id", "text", "style", "labels", "family", "source_image_id", "topic")
    columns = [queries.get(name, missing).tolist() for name in names]  # a list is read faster than a column
    for query_id, text, style, labels, family, source, topic in zip(*columns, strict=True):
        if isinstance(family, str) and isinstance(labels, Collection):
            yield "family", family, *labels
        elif isinstance(labels, Collection) and len(labels):
            yield ("labels", *sorted(labels))
        elif isinstance(source, str):
            yield "caption", source, style
        elif isinstance(topic, str):
            yield "object", topic, text.strip().casefold()
        else:
            yield "query", query_id
