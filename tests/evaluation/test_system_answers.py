"""Answers of a service: recorded with the check of its index, and read again without it."""

from types import SimpleNamespace
from typing import Any, cast

from querytruth.backends.plugins import ModelIdentity
from querytruth.backends.search_systems import SearchHit, SearchSystemOptions
from querytruth.evaluation.system_answers import AskOptions, QuerySearch, ask_and_record


def test_the_check_of_an_index_is_read_with_the_answers_that_it_is_of() -> None:
    system = SimpleNamespace(identity=ModelIdentity("s"), count_items=lambda: 7, options=SearchSystemOptions())
    described = cast(Any, SimpleNamespace(name="s", system=system))
    asked = [QuerySearch("q", "a dog", lambda: [SearchHit("a.jpg", 1.0)])]
    recorded: dict[str, bytes] = {}
    answers, check = ask_and_record(described, asked, 10, AskOptions(), lambda _: recorded, recorded.update)
    system.count_items = lambda: 8
    again = ask_and_record(described, asked, 10, AskOptions(is_offline=True), lambda _: recorded, recorded.update)
    assert again == (answers, check) and check.items == 7 and check.before == check.after is not None
