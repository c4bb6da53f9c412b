"""The ids of captions: the query_id in the tables, and a readable name in the ledger."""

from collections import Counter
from collections.abc import Sequence

import pandas as pd

from builders.records import content_id


def caption_query_id(image_id: str, prompt: str, number: int) -> str:
    """Returns the query_id of the `number`th caption (from 0) of a prompt (`language/style`)."""
    return content_id("q", "recall", image_id, prompt, str(number))


def caption_ledger_item(file_name: str, image_id: str, prompt: str, number: int) -> str:
    """Returns the name of a caption in the ledger, such as "beach_01.jpg · zh/caption 2" (counted from 1; the first has
    no number). The image id replaces a missing file name."""
    return f"{file_name or image_id} · {prompt}" + (f" {number + 1}" if number else "")


def query_ids_by_item(images: pd.DataFrame, prompts: Sequence[str], per_image: int) -> dict[str, str]:
    """Returns the query_id of every caption that a build requests, by its name in the ledger, without the names that
    two captions share. `images` is the set's table; the rest is in manifest["configuration"]["captions"]."""
    names = [name if isinstance(name, str) else "" for name in images["file_name"]]
    pairs = [
        (caption_ledger_item(name, image_id, prompt, number), caption_query_id(image_id, prompt, number))
        for image_id, name in zip(images["image_id"], names, strict=True)
        for prompt in prompts
        for number in range(per_image)
    ]
    counts = Counter(item for item, _ in pairs)
    return {item: query_id for item, query_id in pairs if counts[item] == 1}
