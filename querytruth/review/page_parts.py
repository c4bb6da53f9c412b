"""Parts of all pages: escaped templates, embedded images, formatted sizes and stages."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from querytruth.backends.files.text_formats import read_package_yaml
from querytruth.errors import make_visible
from querytruth.sets.manifest import FunnelStage, pluralize_kind
from querytruth.sets.manifest_notes import describe_certificate

if TYPE_CHECKING:
    import pandas as pd

PAGES_FOLDER = Path(__file__).parent
PAGE_TEXTS = read_package_yaml(PAGES_FOLDER / "page_texts.yaml")
_LANGUAGE = ContextVar("page_language", default="en")
_BASE = ContextVar("page_base", default="")
_JPEG = Markup("data:image/jpeg;base64,")


def render_page(
    template: str,
    manifest: Mapping[str, Any],
    image_table: pd.DataFrame,
    jpegs: Iterable[tuple[str, bytes]],
    *,
    script: str = "filter.js",
    **context: Any,
) -> str:
    """Render a template as one HTML document. `jpegs`: images by their class in the style sheet; `script`: the file of
    the page's one script, which the content security policy allows by its digest, or ""; `context`: further values of
    the template."""
    if script:
        code = (PAGES_FOLDER / "templates" / script).read_text("utf-8")
        digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
        context |= {"script": Markup(code), "script_digest": f"sha256-{digest}"}
    licences = count_values(image_table["licence"].astype("str").fillna(""))
    return render_report(
        template,
        manifest["funnel"],
        m=manifest,
        licences=[(name or translate("not stated"), number) for name, number in licences],
        image_data=[(name, embed_jpeg(jpeg)) for name, jpeg in jpegs],
        **context,
    )


def render_report(template: str, funnel: Iterable[FunnelStage], **context: Any) -> str:
    """Render a template as one HTML document with the stages of a funnel."""
    return render_template(template, funnel=[_stage_bar(stage) for stage in funnel], **context)


def embed_jpeg(jpeg: bytes) -> Markup:
    """Return the address of an image that is embedded in its page."""
    return _JPEG + base64.b64encode(jpeg).decode("ascii")


def render_template(template: str, **context: Any) -> str:
    """Render a template as one HTML document, with the page's own texts in the language of `pages_in`."""
    language = context.setdefault("language", _LANGUAGE.get())
    context["base"] = _BASE.get()
    html = _environment(language).get_template(template).render(context)
    home = os.path.expanduser("~/")  # noqa: PTH111 - a home that is unknown is no error here
    return html.replace(home, "~/") if len(home) > len("~/") else html  # pages go to others


@contextmanager
def pages_in(language: str) -> Iterator[None]:
    """Give pages their own texts in a language, en or zh, inside the `with` block."""
    token = _LANGUAGE.set(language)
    try:
        yield
    finally:
        _LANGUAGE.reset(token)


@contextmanager
def page_below(base: str) -> Iterator[None]:
    """Start the addresses of a page with `base`, such as /review/KEY, inside the `with` block."""
    token = _BASE.set(base)
    try:
        yield
    finally:
        _BASE.reset(token)


def page_base() -> str:
    """Return the base of `page_below`."""
    return _BASE.get()


def page_language() -> str:
    """Return the language of `pages_in`."""
    return _LANGUAGE.get()


def translate(text: str, /, **values: object) -> str:
    """Return a text of a page in the language of `pages_in`, with values in place of `%(name)s`; a text of the data, or
    one known in English only, is unchanged."""
    text = _look_up(text, _LANGUAGE.get())
    return text % values if values else text


def translate_detail(text: str) -> str:
    """Return a detail of a rejection, such as “longer side 5200” or “see cat.jpg”, in the language of `pages_in`."""
    measure, _, value = text.rpartition(" ")
    known = translate(measure)
    return translate(text) if known == measure else f"{known} {value}"


def _look_up(text: str, language: str) -> str:
    if language != "zh":
        return text
    return str(PAGE_TEXTS["chinese"].get(text) or _translate_sentence(text, "chinese_sentences"))


@lru_cache(10_000)
def _translate_sentence(text: str, section: str) -> str:
    """Return a sentence that results and evidence hold in English, such as "98% of the queries have 0: …", in Chinese;
    another text as it is."""
    for pattern, translation in _sentence_patterns(section):
        if found := pattern.fullmatch(text):
            return translation % found.groupdict()
    return text


def name_part(aspect: str, value: str) -> str:
    """Return a value of an aspect of queries, such as negation/without of `kind`, in the language of `pages_in`; labels
    and topics are data and stay unchanged."""
    if _LANGUAGE.get() != "zh" or aspect in ("labels", "topic", "level"):
        return value
    return "/".join(str(PAGE_TEXTS["chinese_parts"].get(part, part)) for part in value.split("/"))


def _translate_evidence(text: str) -> str:
    """Return evidence whose labels are in Chinese, such as “狗 missing”, in Chinese."""
    return "；".join(_translate_sentence(part, "chinese_evidence") for part in text.split("; "))


@cache
def _sentence_patterns(section: str) -> list[tuple[re.Pattern[str], str]]:
    """Return the sentences of a section of the texts, whose %(name)s match any text, with their translations."""

    def compile_sentence(sentence: str) -> re.Pattern[str]:
        parts = re.split(r"%\((\w+)\)s", sentence)  # fixed, name, fixed, …
        fixed, names = map(re.escape, parts[::2]), parts[1::2]
        return re.compile(
            "".join(one + (f"(?P<{name}>.+?)" if name else "") for one, name in zip(fixed, [*names, ""], strict=True)),
            re.DOTALL,
        )

    return [(compile_sentence(one), str(other)) for one, other in PAGE_TEXTS[section].items()]


def count_values(column: pd.Series) -> list[tuple[str, int]]:
    """Return the values of a column with their counts, the most frequent first."""
    counts = [(str(value), int(number)) for value, number in column.value_counts().items()]
    return sorted(counts, key=lambda pair: (-pair[1], pair[0]))


def text_or_empty(value: Any) -> str:
    """Return a text of a table, "" where it is missing."""
    return value if isinstance(value, str) else ""


def labels_or_empty(value: Any) -> tuple[str, ...]:
    """Return the labels of a query, () where they are missing."""
    value = value.tolist() if hasattr(value, "tolist") else value  # an array
    return tuple(map(str, value)) if isinstance(value, Sequence) else ()


@cache
def _environment(language: str) -> Environment:
    """Return the Jinja environment of all pages in a language: every value is escaped, and a missing one is an error.
    In templates `_("%(number)s more", number=3)` is a text in the language, and `| text` one that is a value."""
    # By the folder of this file: a folder "review" where the command runs would hide the package's name.
    loader = FileSystemLoader([PAGES_FOLDER / "templates", PAGES_FOLDER / "static"])  # static: the palette
    environment = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_make_text_visible,
    )

    def write(text: str, /, **values: object) -> str:
        parts = {name: escape(_make_text_visible(value)) for name, value in values.items()}
        return Markup(_look_up(text, language)) % parts if values else _look_up(text, language)

    environment.globals |= {"_": write, "texts": PAGE_TEXTS["chinese"] if language == "zh" else {}}
    environment.filters["text"] = lambda value: _look_up(str(value).replace("_", " "), language)
    environment.filters["evidence"] = lambda text, of: _translate_evidence(text) if language == of == "zh" else text
    environment.filters["part"] = lambda value, aspect: name_part(aspect, str(value))
    environment.filters["detail"] = translate_detail
    environment.filters["number"] = lambda value: f"{value:,}" if isinstance(value, int) else f"{value:,g}"
    environment.filters["bytes"] = _bytes
    environment.filters["share"] = lambda value: "∞" if value is None else f"{100 * value:.1f}%"
    environment.filters["figure"] = _round
    environment.filters["certificate"] = lambda value: describe_certificate(value, language)
    environment.filters["breakable"] = lambda text: Markup("&amp;<wbr>").join(text.split("&"))
    return environment


def _make_text_visible(value: object) -> object:
    return value if isinstance(value, Markup) or not isinstance(value, str) else make_visible(value)


def _round(value: float | None) -> str:
    """Return a count as a whole number, another figure with three digits."""
    return "∞" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _bytes(size: int) -> str:
    """Return a size in decimal units, as file managers show it."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:,.1f} {unit}"
    return translate("%(size)s bytes", size=f"{size:,}")


def _stage_bar(stage: FunnelStage) -> dict[str, Any]:
    """Return the stage with the segments of its bar, `parts`."""
    parts = [{"what": "kept", "bucket": "accepted", "count": int(stage["accepted"])}]
    left_out = {"rejected": stage["rejected"], "quarantined": stage["quarantined"], "pending": stage["pending"]}
    for bucket, counts in left_out.items():
        reasons = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
        parts += [{"what": why.replace("_", " "), "bucket": bucket, "count": int(number)} for why, number in reasons]
    what = stage["kind"] if stage["entered"] == 1 else pluralize_kind(stage["kind"])
    return {**stage, "what": what, "parts": [part for part in parts if part["count"]]}
