"""A page as its reader has it."""

import base64
import hashlib
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


def check_page_stands_alone(html: str, images: int, scripts: int = 0) -> None:
    """No address but those of its own parts, no script but so many that its policy names; so many images, each once."""
    seen = ParsedPage(html)
    policy = next(a["content"] for _, a in seen.tags if a.get("http-equiv") == "Content-Security-Policy")
    found = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in found]
    assert policy.startswith("default-src 'none'; img-src data:; style-src 'unsafe-inline'")
    assert (
        re.findall("script-src 'sha256-(.*?)'", policy) == digests and policy.count("script") == len(digests) == scripts
    )
    assert "unsafe-eval" not in policy
    assert not {tag for tag, _ in seen.tags} & {"link", "img", "iframe", "object", "base", "form"}
    ids = [a["id"] for _, a in seen.tags if "id" in a]
    assert {a["href"] for _, a in seen.tags if "href" in a} <= {f"#{one}" for one in ids} and len(ids) == len(set(ids))
    assert not re.search(r"url\((?!\"data:image/jpeg;base64,[A-Za-z0-9+/=]+\"\))", html) and "@import" not in html
    assert html.count("data:image/jpeg") == images, "each image once, however often it is shown"
