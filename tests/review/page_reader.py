"""A page as its reader has it."""

import re
from html.parser import HTMLParser


class ParsedPage(HTMLParser):
    """All tags with their attributes, and the text apart from the style sheet."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.feed(html)
        self.text = re.sub(r"\s+", " ", self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self.text += "" if self.tags and self.tags[-1][0] == "style" else data
