"""A search is described from its address by what it answers: the request, the list, the ids and the score."""

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from querytruth.checks.proposed_search import propose_search
from querytruth.errors import UserError
from tests.loopback import CannedResponse, LoopbackAnswer, ReceivedRequest, loopback

NAMES = [f"2024/p{number:02}.jpg" for number in range(20)]


def propose(answer: Any, address: str = "/find", text: str = "red") -> dict[str, Any]:
    """The keys for a search by GET ?q= that answers `answer` of its names."""

    def reply(request: ReceivedRequest) -> LoopbackAnswer:
        asked = parse_qs(urlsplit(request.path).query).get("q", [""])[0]
        return CannedResponse(json.dumps(answer(NAMES if asked == text else NAMES[::-1])))

    with loopback(reply) as server:
        return dict(yaml.safe_load(propose_search(server.url + address, text, NAMES)))


@pytest.mark.parametrize(
    ("answer", "keys"),
    [
        (lambda names: names, {"results": "@", "id": "@"}),
        (lambda names: [{"f": name} for name in names], {"results": "@", "id": "f"}),
        (lambda names: {"ids": [names]}, {"results": '"ids"[0]', "id": "@"}),
        (
            lambda names: {
                "a": [{"n": 1}],
                "b": [{"x": {"y": name[5:8]}, "s": -float(n)} for n, name in enumerate(names)],
            },
            {"results": "b", "id": "x.y", "score": "s"},
        ),
        (  # a text, a number that is always the same, and one that rises are no scores
            lambda names: [{"f": one, "t": f"{99 - n}", "one": 1.5, "n": n + 0.5} for n, one in enumerate(names)],
            {"results": "@", "id": "f"},
        ),
        (
            lambda names: {"hits": [{"id": f"photo:{name[5:8]}!"} for name in names]},
            {"results": "hits", "id": "id", "ids": "photo:{stem}!"},
        ),
    ],
)
def test_the_list_and_the_ids_are_those_that_name_most_images(answer: Any, keys: dict[str, str]) -> None:
    found = propose(answer)
    assert {name: value for name, value in found.items() if name in ("results", "id", "ids", "score")} == keys
    assert found["query"] == {"q": "{query}", "k": "{k}"}


def test_parameters_of_the_address_are_kept_and_filled_in() -> None:
    found = propose(lambda names: names, "/find?lang=en&q=anything&limit=5")
    assert found["query"] == {"lang": "en", "q": "{query}", "limit": "{k}"}
    assert propose(lambda names: names, "/find?q={query}&size={k}")["url"].endswith("/find?q={query}&size={k}")


def test_a_request_that_ignores_the_query_is_passed_over() -> None:
    def reply(request: ReceivedRequest) -> LoopbackAnswer:
        asked = parse_qs(urlsplit(request.path).query)
        return CannedResponse(json.dumps(NAMES[::-1] if asked.get("text") == ["red"] else NAMES))

    with loopback(reply) as server:
        assert yaml.safe_load(propose_search(server.url, "red", NAMES))["query"] == {"text": "{query}", "k": "{k}"}


def test_an_address_without_a_search_is_one_line() -> None:
    with (
        loopback(lambda _: CannedResponse("<html>", 200)) as server,
        pytest.raises(UserError, match="returned no usable answer"),
    ):
        propose_search(server.url, "red", NAMES)
