"""What a caption goes by: its query_id in the tables, and in the ledger a name that people can read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pandas as pd

from builders.records import content_id

_BETWEEN = " · "


def caption_query_id(image_id: str, prompt: str, number: int) -> str:
    """The query_id of the caption that was asked for with a prompt (`language/style`), the `number`th from 0."""
    return content_id("q", "recall", image_id, prompt, str(number))


def caption_ledger_item(file_name: str, image_id: str, prompt: str, number: int) -> str:
    """Its name in the ledger, as in "beach_01.jpg · zh/caption 2" (counted from 1, and the first without a number); a
    picture without a file name goes by its id."""
    return f"{file_name or image_id}{_BETWEEN}{prompt}" + (f" {number + 1}" if number else "")


def query_ids_by_item(images: pd.DataFrame, prompts: Sequence[str], per_image: int) -> dict[str, str]:
    """The query_id of every caption that a build asks for, by its name in the ledger. `images` is the set's table, the
    rest stands in manifest["configuration"]["captions"]. Names that two captions share are left out: which of the
    two is meant, nobody can tell."""
    names = [name if isinstance(name, str) else "" for name in images["file_name"]]
    pairs = [
        (caption_ledger_item(name, image_id, prompt, number), caption_query_id(image_id, prompt, number))
        for image_id, name in zip(images["image_id"], names, strict=True)
        for prompt in prompts
        for number in range(per_image)
    ]
    counts = Counter(item for item, _ in pairs)
    return {item: query_id for item, query_id in pairs if counts[item] == 1}


def language_of_ledger_item(item: str) -> str:
    """The language (zh or en) that a caption was asked for in, told from its name in the ledger."""
    return item.rpartition(_BETWEEN)[2].partition("/")[0]
