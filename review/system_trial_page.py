"""The answers of a search service to one query, as an HTML page."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from review.page_parts import render_template


def render_system_trial(title: str, rows: Sequence[Mapping[str, Any]], thumbnails: Mapping[str, bytes]) -> str:
    """Returns the page: the results in order, each with the thumbnail (JPEG by image_id) of the image that it maps
    to."""
    start = Markup("data:image/jpeg;base64,")
    data = {name: start + base64.b64encode(jpeg).decode("ascii") for name, jpeg in thumbnails.items()}
    tiles = [{**row, "data": data.get(row["image_id"])} for row in rows]
    return render_template("system_trial.html", title=title, rows=tiles)
