"""The ids of captions: the query_id in the tables, and a readable name in the ledger."""

from builders.records import content_id


def caption_query_id(image_id: str, prompt: str, number: int) -> str:
    """Returns the query_id of the `number`th caption (from 0) of a prompt (`language/style`)."""
    return content_id("q", "recall", image_id, prompt, str(number))


def caption_ledger_item(file_name: str, image_id: str, prompt: str, number: int) -> str:
    """Returns the name of a caption in the ledger, such as "beach_01.jpg · zh/caption 2" (counted from 1; the first has
    no number). The image id replaces a missing file name."""
    return f"{file_name or image_id} · {prompt}" + (f" {number + 1}" if number else "")
