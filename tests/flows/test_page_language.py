"""The page beside each version is in the language that the definition names; the set itself is the same."""

from pathlib import Path

import querytruth as qt
from flows.set_kinds import SET_KINDS
from querytruth.sets.decision_log import append_decisions
from querytruth.sets.decision_records import QueryDecision
from tests.worlds import build_of, draw_labelled_images


def test_pages_of_builds_and_of_applied_decisions_are_in_the_language_of_the_definition(tmp_path: Path) -> None:
    words = draw_labelled_images(tmp_path)
    shown = SET_KINDS["precision"].write_version_page
    chinese = shown(build_of("precision", ["name=noise", *words], "page_language=zh"))
    english = shown(build_of("precision", ["name=noise-en", *words]))
    pages = [built.page for built in (chinese, english) if built.page is not None]
    assert ["相关图片" in page.read_text("utf-8") or "张图片" in page.read_text("utf-8") for page in pages] == [
        True,
        False,
    ]
    first = qt.load(chinese.path)
    assert first.manifest["content_digest"] == qt.load(english.path).manifest["content_digest"]
    assert "page_language" not in first.manifest["configuration"]
    query = first.queries.iloc[0]
    append_decisions(first.path.parent, [QueryDecision(query["query_id"], query["text"], "drop", at="1")])
    applied = first.apply()
    assert applied.page is not None and 'lang="zh' in applied.page.read_text("utf-8")
