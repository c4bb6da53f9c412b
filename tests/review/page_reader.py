"""A page as its reader has it."""

import base64
import hashlib
import re
from html import unescape
from html.parser import HTMLParser

from querytruth.errors import make_visible

TURNED = "\u202egpj.exe\u2066"  # turns the direction of what stands around it
EVIL = [
    *("<script>alert(1)</script>", "\"' onload='alert(1)", "</style><script>alert(2)</script>", "{{ 7 * 7 }}{% raw %}"),
    *(TURNED, "a&b&amp;", "<img src=x onerror=alert(1)>", "javascript:alert(1)", "</svg><b>"),
]
HOSTILE = ["<script>alert(1)</script>", "\"><img src=x onerror=alert(1)>", "</script><script>alert(1)</script>",
           "{{ 7 * 7 }}{% raw %}", "'-alert(1)-'", "<!--", "]]>", "&lt;b&gt;", "javascript:alert(1)", "\u202e\u2066rtl",
           "{0.__class__}%s%n"]  # fmt: skip


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


def read_text(html: str) -> str:
    """The page's text, with a blank wherever a tag stands."""
    body = html.split("</style>")[-1].split("<script>")[0]
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", body)))


def check_text_stays_text(html: str, harmless: str, evil: str, *more_tags: str) -> ParsedPage:
    """The page has the evil text as text alone: no tag that the page of harmless texts lacks, no handler, no style."""
    seen = ParsedPage(html)
    assert {tag for tag, _ in seen.tags} <= {tag for tag, _ in ParsedPage(harmless).tags} | {*more_tags}
    assert sum(tag == "script" for tag, _ in seen.tags) <= 1, "the page's own"
    assert not [name for _, a in seen.tags for name in a if name.startswith("on")]
    assert re.sub(r"\s+", " ", make_visible(evil)) in seen.text
    assert evil not in " ".join(a.get("style", "") + a.get("class", "") for _, a in seen.tags)
    return seen


def check_directions_are_isolated(html: str, tags: str = "bdi") -> None:
    """Wherever the page has a text that turns the direction, an element keeps that to itself."""
    stripped = re.sub(r'(title|aria-label|lang)="[^"]*"|<title>.*?</title>', "", html)
    places = [match.start() for match in re.finditer(re.escape(make_visible(TURNED)), stripped)]
    assert places and all(re.search(rf"<({tags})[^<>]*>[^<>]*$", stripped[:place]) for place in places)
