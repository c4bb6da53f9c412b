"""A search behind HTTP: the request is a template, and JMESPath expressions find the results in the JSON answer."""

from __future__ import annotations

import base64
import json
import math
import re
from typing import Any, Literal
from urllib.parse import quote, urlencode

import jmespath
from jmespath.exceptions import JMESPathError
from pydantic import Field, JsonValue

from querytruth.backends.plugins import ModelIdentity
from querytruth.backends.search_systems import SEARCH_SYSTEMS, SearchFailure, SearchHit, SearchSystemOptions
from querytruth.backends.web.json_calls import JsonService, check_service_url, refuse_secret_names
from querytruth.errors import UserError

_MOST_NESTED = 6
_PLAIN_KEY = re.compile("[A-Za-z_][A-Za-z0-9_]*")


class HttpSearchOptions(SearchSystemOptions):
    """`{query}` and `{k}` are replaced by the text and the number of results in `url`, `query` (the parameters of the
    address) and `body` (JSON), encoded for their place. A search by images has `{image}` in `body`, for base64, or
    `image_part`, the name of the form part with the file; the form's fields come from `body`. `header_env`: the
    environment variable with the value of each header. `results`, `id` and `score` are JMESPath expressions: the list,
    and in each entry the id and the score; without `score` the order is the ranking. `count` finds the size of the
    index in an answer."""

    url: str
    method: Literal["GET", "POST"] = "GET"
    headers: dict[str, str] = Field(default_factory=dict)
    header_env: dict[str, str] = Field(default_factory=dict)
    query: dict[str, str | int] = Field(default_factory=dict)
    body: JsonValue = None
    results: str = "results"
    id: str = "id"
    score: str | None = None
    count: str | None = None
    image_part: str | None = Field(None, min_length=1)


def load(options: HttpSearchOptions) -> HttpSearch:
    """Return the system; it opens no connection. Raises UserError for a bad address, template or expression."""
    return HttpSearch(options)


class HttpSearch:
    """A search service behind a request template."""

    def __init__(self, options: HttpSearchOptions) -> None:
        self.options = options
        check_service_url(options.url.replace("{query}", "q").replace("{k}", "1"))
        self.takes_images = _check_query(options)
        refuse_secret_names("query", options.query)
        if isinstance(options.body, dict):
            refuse_secret_names("body", options.body)
        self._results, self._id = _compile("results", options.results), _compile("id", options.id)
        self._score = None if options.score is None else _compile("score", options.score)
        self._count = None if options.count is None else _compile("count", options.count)
        self._service = JsonService(
            options.headers, options.header_env, connections=options.concurrency, deadline=options.deadline
        )

    @property
    def identity(self) -> ModelIdentity:
        """Return the request and how its answer is read."""
        fields = {"url", "method", "headers", "query", "body", "results", "id", "score"}
        fields |= {"image_part"} if self.options.image_part is not None else set()
        return ModelIdentity("http", "", self.options.model_dump(mode="json", include=fields))

    def search(self, text: str, k: int) -> list[SearchHit]:
        """Return the hits in the answer's order. Raises SearchFailure."""
        answer = self.read_answer(text, k)
        return read_hits(answer, self._results, self._id, self._score)[:k]

    def search_image(self, image: bytes, k: int) -> list[SearchHit]:
        """Return the hits of an image in the answer's order. Raises SearchFailure."""
        file = None if self.options.image_part is None else (self.options.image_part, image)
        answer = self.read_answer("", k, base64.b64encode(image).decode(), file)
        return read_hits(answer, self._results, self._id, self._score)[:k]

    def explain_paths(self, text: str, *, has_id: bool, has_score: bool) -> list[str]:
        """Ask once more and return a line for each of `id` and `score` that found nothing: where the first entry has
        texts, or numbers. Nothing for a search by images. Raises SearchFailure."""
        if self.takes_images or (has_id and has_score):
            return []
        found = self._results.search(self.read_answer(text, 1))
        entry = found[0] if isinstance(found, list) and found else {}
        lines = []
        for name, path, is_there, kinds in (
            ("id", self.options.id, has_id, (str, int)),
            ("score", self.options.score, has_score, (int, float)),
        ):
            if not is_there:
                paths = ", ".join(f"{way} ({str(value)[:40]!r})" for way, value in find_values(entry, kinds)) or "none"
                lines.append(f"{name}: {path} matches nothing in a result; the result has {paths}")
        return lines

    def count_items(self) -> int | None:
        """Return what `count` finds in an answer; None for a search by images, which would need an image."""
        if self._count is None or self.takes_images:
            return None
        found = self._count.search(self.read_answer("a", 1))
        return found if isinstance(found, int) else None

    def read_answer(self, text: str, k: int, image: str = "", file: tuple[str, bytes] | None = None) -> Any:
        """Return the JSON answer as it is. Raises SearchFailure."""
        options = self.options
        url = options.url.replace("{query}", quote(text, safe="")).replace("{k}", str(k))
        if options.query:
            parameters = {name: fill_template(value, text, k) for name, value in options.query.items()}
            url += ("&" if "?" in url else "?") + urlencode(parameters)
        body = fill_template(options.body, text, k)
        return self._service.call(options.method, url, _fill_image(body, image) if image else body, file)


def _check_query(options: HttpSearchOptions) -> bool:
    """Return whether images are the queries. Raises UserError for a file that sends no query, or both."""
    sends_text = "{query}" in str([options.url, options.query, options.body])
    sends_image = "{image}" in str(options.body) or options.image_part is not None
    if sends_text == sends_image:
        reason = "sends both texts and images" if sends_text else "sends no query"
        next_step = "write {query} into url, query or body; or write {image} into body, or set image_part"
        raise UserError(SEARCH_SYSTEMS.stage, "http", reason, next_step)
    if sends_image and options.method != "POST":
        raise UserError(SEARCH_SYSTEMS.stage, "http", "sends an image with GET", "set method: POST")
    if options.image_part is not None and not isinstance(options.body, dict | None):
        raise UserError(SEARCH_SYSTEMS.stage, "http", "has a body that is not a form", "give the form's fields as keys")
    return sends_image


def _fill_image(value: object, image: str) -> Any:
    """Return a JSON value with base64 in place of `{image}`."""
    if isinstance(value, dict):
        return {name: _fill_image(inner, image) for name, inner in value.items()}
    if isinstance(value, list):
        return [_fill_image(inner, image) for inner in value]
    return value.replace("{image}", image) if isinstance(value, str) else value


def fill_template(value: object, text: str, k: int) -> Any:
    """Return a JSON value with `{query}` and `{k}` filled in; a text that is `{k}` alone becomes a number."""
    if isinstance(value, dict):
        return {name: fill_template(inner, text, k) for name, inner in value.items()}
    if isinstance(value, list):
        return [fill_template(inner, text, k) for inner in value]
    if value == "{k}":
        return k
    return (
        text.join(part.replace("{k}", str(k)) for part in value.split("{query}")) if isinstance(value, str) else value
    )


def read_hits(answer: Any, results: Any, id_: Any, score: Any) -> list[SearchHit]:
    """Return the hits of an answer by compiled expressions. An entry without an id gets the id "". Raises SearchFailure
    if there is no list of results."""
    try:
        found = results.search(answer)
        if not isinstance(found, list):
            lists = ", ".join(f"{path} ({keys})" for path, keys in find_lists(answer)) or "none"
            detail = f"results is a {type(found).__name__}, not a list; lists in the answer: {lists}"
            raise SearchFailure("no_results_list", detail)
        names, scores = _find_in(found, id_), None if score is None else _find_in(found, score)
    except JMESPathError as error:
        raise SearchFailure("bad_answer", str(error)[:200]) from None
    if scores is None:
        return [SearchHit(_read_id(name), None) for name in names]
    return [SearchHit(_read_id(name), _read_score(number)) for name, number in zip(names, scores, strict=True)]


def _find_in(entries: list[object], expression: Any) -> list[object]:
    """Return what an expression finds in each entry. A field alone, as most expressions are, is read without the
    interpreter of JMESPath, which takes longer than the rest of an answer."""
    if expression.parsed["type"] == "field":
        field = expression.parsed["value"]
        return [entry.get(field) if isinstance(entry, dict) else None for entry in entries]
    return [expression.search(entry) for entry in entries]


def find_lists(answer: object, path: str = "", depth: int = 0) -> list[tuple[str, str]]:
    """Return the paths of lists of objects in a JSON answer as JMESPath, at most five, with the keys of the first
    object of each: what `results` and `id` could name."""
    found: list[tuple[str, str]] = []
    if isinstance(answer, list) and answer and isinstance(answer[0], dict):
        found.append((path or "@", ", ".join(list(map(str, answer[0]))[:8])))
    elif isinstance(answer, dict) and depth < _MOST_NESTED:
        for key, inner in answer.items():
            name = key if _PLAIN_KEY.fullmatch(key) else json.dumps(key)
            found += find_lists(inner, f"{path}.{name}" if path else name, depth + 1)
    return found[:5]


def find_values(entry: object, kinds: tuple[type, ...], path: str = "", depth: int = 0) -> list[tuple[str, Any]]:
    """Return the paths of values of some types in an entry as JMESPath, at most eight, with the values."""
    if isinstance(entry, kinds) and not isinstance(entry, bool):
        return [(path or "@", entry)]
    found: list[tuple[str, Any]] = []
    if isinstance(entry, dict) and depth < _MOST_NESTED:
        for key, inner in entry.items():
            name = key if _PLAIN_KEY.fullmatch(key) else json.dumps(key)
            found += find_values(inner, kinds, f"{path}.{name}" if path else name, depth + 1)
    return found[:8]


def _read_id(value: object) -> str:
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def _read_score(value: object) -> float:
    """Return the number, also from a text ("0.42"); NaN for anything else, which the run counts."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return math.nan
    try:
        return float(value)
    except (ValueError, OverflowError):
        return math.nan


def _compile(name: str, expression: str) -> Any:
    try:
        return jmespath.compile(expression)
    except JMESPathError as error:
        reason = f"is not a JMESPath expression ({str(error).splitlines()[0][:120]})"
        next_step = "write hits or data.items (see jmespath.org)"
        raise UserError(SEARCH_SYSTEMS.stage, f"{name}: {expression}", reason, next_step) from None
