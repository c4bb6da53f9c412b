"""What axe-core once found missing on review pages: names of dialogs, titles of views, something to focus in a list."""

from pathlib import Path

import pytest

from tests.review.page_reader import ParsedPage
from tests.review.server.pages import open_client
from tests.small_sets import publish_small_set, small_tables


@pytest.mark.parametrize("view", ["/queries", "/pairs", "/decisions"])
def test_dialogs_have_names_and_lists_that_scroll_something_to_focus(tmp_path: Path, view: str) -> None:
    html = open_client(publish_small_set(tmp_path, small_tables())).get(view).text
    page = ParsedPage(html)
    ids = {fields["id"] for _, fields in page.tags if "id" in fields}
    dialogs = [fields for tag, fields in page.tags if tag == "dialog"]
    assert all(one["aria-labelledby"] in ids for one in dialogs) and len(dialogs) == (0 if view == "/decisions" else 3)
    keys = html.partition('<dialog id="help"')[2].partition("</dialog>")[0]
    assert "<button" in keys or not dialogs
    assert ("h1" in {tag for tag, _ in page.tags}) == (view == "/decisions"), "cards of queries are titled by the query"
