"""Pages speak Chinese as well as English: every text of a template or script has both, and a reviewer may choose."""

import json
import re
from itertools import product
from pathlib import Path

import pytest

from builders import imported_set, judged_pairs, publication
from builders.precision.families.family_queries import describe_grades
from builders.precision.phrasing_steps import PHRASING_LIMITATION
from flows import generated_set, recall_set
from flows.gallery_set import GALLERY_LIMITATIONS
from flows.precision_set import PRECISION_LIMITATIONS
from flows.queries_set import QUERIES_GRADES, QUERIES_LIMITATIONS
from querytruth.formats import import_layouts
from querytruth.formats.importers.trec import JUDGED_GALLERY_LIMITATION
from querytruth.review import page_parts
from querytruth.review.page_parts import PAGE_TEXTS, name_part, pages_in, render_template, translate
from querytruth.sets import decision_outcomes
from tests.review.server.pages import HOME, TOKEN, open_client
from tests.small_sets import publish_small_set, small_tables

CHINESE = PAGE_TEXTS["chinese"]
PARTS = page_parts.PAGES_FOLDER
ROOT = Path(__file__).parents[2]
# Names of keys, of a program and of a digest, which are the same in both.
SAME = {"Id", "Enter", "Esc", "sha256", "CSV", "?"}


def values(text: str) -> set[str]:
    return set(re.findall(r"%\((\w+)\)s", text))


def test_every_text_of_a_template_and_of_a_script_is_there_in_chinese() -> None:
    texts = {
        text
        for file in (PARTS / "templates").glob("*.html")
        for text in re.findall(r'\b_\("([^"]+)"', file.read_text("utf-8"))
    }
    scripts = [file.read_text("utf-8") for file in (PARTS / "static").glob("*.js")]
    called = r'(?:\bt|new Error|queue\.write|keyButton\("\w+",|element\("(?:h2|p|button)", \{[^{}]*\},)\(? ?"([^"]+)"'
    texts |= {text.strip() for script in scripts for text in re.findall(called, script)}
    marks = {text for text in texts if not re.search("[a-z]{2}", re.sub(r"%\(\w+\)s|<[^>]*>|querytruth", "", text))}
    assert len(texts) > 400 and texts - marks - SAME - CHINESE.keys() == set()


def test_a_translation_has_no_value_that_its_text_lacks() -> None:
    assert {text for text, chinese in CHINESE.items() if values(chinese) - values(text)} == set()
    assert {text for text, chinese in CHINESE.items() if chinese == text} <= SAME


def test_a_page_is_in_the_language_that_is_asked_for_and_data_stays() -> None:
    rows = {"title": "Queries", "rows": [], "columns": [], "notes": []}
    assert translate("Queries") == "Queries"
    with pages_in("zh"):
        assert translate("%(number)s more images", number=3) == "另外 3 张图片"
        assert translate("a text of the data") == "a text of the data"
        assert "Queries" in render_template("notebook_table.html", **rows), "a value is no text of the page"
    assert translate("Queries") == "Queries"


@pytest.mark.parametrize("view", ["/queries", "/pairs", "/decisions"])
def test_a_reviewer_chooses_the_language_on_the_page(tmp_path: Path, view: str) -> None:
    page = open_client(publish_small_set(tmp_path, small_tables()))
    assert '<html lang="en">' in page.get(view).text and "中文" in page.get(view).text
    answer = page.get(view, params={"page_language": "zh"}, follow_redirects=False)
    assert answer.status_code == 303 and answer.headers["location"] == view
    chinese = page.get(view).text
    assert '<html lang="zh">' in chinese and "决定" in chinese and 'aria-current="page"' in chinese
    texts = json.loads(chinese.partition('id="texts">')[2].partition("</script>")[0])
    assert texts["All right"] == "全部正确"
    page.get(view, params={"page_language": "en"})
    assert '<html lang="en">' in page.get(view).text
    assert page.get(view, params={"page_language": "//evil.example"}).status_code == 200
    stranger = open_client(page.stored, enter=False)
    assert stranger.get(view, params={"page_language": "zh"}).status_code == 403 and HOME and TOKEN


def test_every_advice_about_a_rejected_item_is_there_in_chinese() -> None:
    advice = {*decision_outcomes._ADVICE.values()}
    assert sorted(advice - CHINESE.keys()) == []


def test_what_a_build_states_of_its_set_is_shown_in_chinese() -> None:
    limits = [recall_set.UNSEEN_AMBIGUITY_LIMITATION, recall_set.MODEL_STYLE_LIMITATION, PHRASING_LIMITATION]
    limits += [*GALLERY_LIMITATIONS, *QUERIES_LIMITATIONS, *PRECISION_LIMITATIONS, *generated_set.GENERATED_LIMITATIONS]
    limits += [imported_set._ONLY_NAMED, publication._CERTIFICATE_ENDED]
    limits += [generated_set.UNSEEN_LIMITATION, JUDGED_GALLERY_LIMITATION, import_layouts.SINGLE_IMAGE_LIMITATION]
    stated = [import_layouts.CAPTION_GRADES, recall_set.RECALL_GRADES, QUERIES_GRADES, generated_set.JUDGED_GRADES]
    stated += [describe_grades(*one) for one in product(("graded", "binary"), ([], ["count"], ["attribute"]))]
    stated += [PAGE_TEXTS["generated_stages"], PAGE_TEXTS["generated_reasons"], dict(enumerate(limits))]
    assert {text for texts in stated for text in texts.values()} - CHINESE.keys() == set()


def test_sentences_that_results_hold_in_english_are_shown_in_chinese() -> None:
    """Each pattern has the words of the code that writes the sentence."""
    shown = {
        "the run omits 1,200 of 3,000 queries, which count as 0 (for example q_1)": (
            "运行结果缺少 3,000 条查询中的 1,200 条，按 0 计算（例如 q_1）"
        ),
        "98% of the queries have 0: systems can hardly be distinguished": "98% 的查询得 0：几乎分不出系统",
        "Among the first five results of 9 queries that ask for something else.": (
            "在 9 条另有所问的查询里，也排在前五。"
        ),
        "its captions say all of it: A dog.\nA cat.": "它的描述里全都有：A dog.\nA cat.",
        f"1,234 {judged_pairs._LIMITATION}": "1,234 个判断来自按人的回答校准过的模型：其中有些是错的。",
        "98% of the dogs": "98% of the dogs",
        "Never judged; only 3 of the first 10 are.": "从未判断；前 10 个中只判断过 3 个。",
        "result 3 of 蓝色的鸟": "“蓝色的鸟”的第 3 个结果",
    }
    with pages_in("zh"):
        assert {text: translate(text) for text in shown} == shown
    assert [text for text in shown if translate(text) != text] == []
    evidence = '{{ "长椅 accepted for 座椅; 狗 missing" | evidence("zh") }}'
    assert page_parts._environment("zh").from_string(evidence).render() == "长椅可算作座椅；缺狗"
    assert page_parts._environment("en").from_string(evidence).render() == "长椅 accepted for 座椅; 狗 missing"
    sentences = PAGE_TEXTS["chinese_sentences"]
    assert [one for one, chinese in sentences.items() if values(chinese) - values(one)] == []
    sources = " ".join(
        path.read_text("utf-8") for room in ("querytruth", "builders") for path in (ROOT / room).rglob("*.py")
    )
    for sentence in sentences.keys() - {"grade by %(name)s"}:  # which is put together of a decision and a name
        first = next(words for words in re.split(r"%\(\w+\)s", sentence) if len(words) > 5)
        assert first.partition("(")[0].strip(" :") in sources, sentence


def test_parts_of_queries_are_named_in_chinese_and_labels_stay() -> None:
    said = [("kind", "negation/without"), ("kind", "attribute/dark red"), ("length", "over 20"), ("labels", "count")]
    with pages_in("zh"):
        assert [name_part(*one) for one in said] == ["否定/没有", "属性/dark red", "超过 20", "count"]
    assert [name_part(*one) for one in said] == [value for _, value in said]
    families = "".join(file.read_text("utf-8") for file in (ROOT / "builders/precision/families").glob("*.py"))
    kinds = [*re.findall(r'"((?:count|negation|size)/[a-z0-9+]+)"', families), "spatial/left", "spatial/above"]
    assert len(kinds) > 5 and {part for one in kinds for part in one.split("/")} <= PAGE_TEXTS["chinese_parts"].keys()


def test_a_detail_of_a_rejection_has_its_measure_in_chinese() -> None:
    assert page_parts.translate_detail("longer side 5200") == "longer side 5200"
    with pages_in("zh"):
        assert page_parts.translate_detail("longer side 5200") == "长边 5200"
        assert page_parts.translate_detail("see cat.jpg") == "见 cat.jpg"
        assert page_parts.translate_detail("ends too soon") == "ends too soon"


def test_a_browser_that_prefers_chinese_sees_it_until_another_language_is_chosen(tmp_path: Path) -> None:
    page = open_client(publish_small_set(tmp_path, small_tables()))
    headers = {"accept-language": "zh-CN,zh;q=0.9"}
    assert '<html lang="zh">' in page.get("/queries", headers=headers).text
    page.get("/queries", params={"page_language": "en"})
    assert '<html lang="en">' in page.get("/queries", headers=headers).text


def test_the_fields_and_keys_of_every_view_are_there_in_chinese() -> None:
    rooms = (PARTS, PARTS.parent / "audit")
    sources = " ".join(path.read_text("utf-8") for room in rooms for path in room.glob("*.py"))
    fields = r'(?:search_field\(|choice_field\("\w+", |state_field\()"([^"]+)"|promise = "([^"]+)"'
    texts = {one or other for one, other in re.findall(fields, sources)}
    for script in (PARTS / "static").glob("*.js"):
        texts |= set(re.findall(r'\[\["[^\]]+\], "([^"]+)"', script.read_text("utf-8")))
    assert len(texts) > 30 and texts - CHINESE.keys() == set()
