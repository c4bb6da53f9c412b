"""The systems that look at no image, as bars beside a random order: one HTML page without scripts."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from querytruth.review.page_parts import render_template

EXAMPLES = 3  # queries shown of each system that beats chance
PAGE_TEXTS: dict[str, dict[str, str]] = {
    "en": {
        "title": "Solved without looking",
        "beaten": "of {count} systems that look at no image beat chance",
        "system": "system",
        "queries": "queries",
        "ndcg": "nDCG [95%]",
        "random": "random",
        "deviations": "sd above chance",
        "legend": "Bar: nDCG over the whole gallery. Thin line: its 95% interval. Mark: a random order. Red: beats "
        "chance, by 4 standard deviations of permuted truths and above all of them.",
        "examples": "Answered best",
        "none": "Nothing was measured: fewer than 10 queries have a relevant image.",
    },
    "zh": {
        "title": "不看图也能答对",
        "beaten": "/ {count} 个不看图片的系统胜过随机",
        "system": "系统",
        "queries": "查询",
        "ndcg": "nDCG [95%]",
        "random": "随机",
        "deviations": "高于随机的标准差数",
        "legend": "条：整个图库上的 nDCG。细线：95% 区间。竖线：随机排序。红色：胜过随机，"
        "即高于全部打乱的真值，且高出 4 个标准差。",
        "examples": "答得最好的查询",
        "none": "没有测量：有相关图片的查询少于 10 条。",
    },
}
_PARTS_ZH = {  # of the names in `querytruth.audit.shortcut_systems`
    "words in file names": "文件名中的词",
    "query id in file names": "文件名中的查询编号",
    "order of file names": "文件名顺序",
    "query order as order of file names": "查询顺序与文件名顺序相同",
    "gallery position": "图库位置",
    "query order as gallery position": "查询顺序与图库位置相同",
    "image size": "图片大小",
    "image shape": "图片形状",
    "how common the image size is": "尺寸是否常见",
    "popularity": "热门程度",
    "most common label": "最常见的标签",
    "folder": "文件夹",
    "file type": "文件类型",
    "words in captions": "描述中的词",
    "words in labels": "标签中的词",
    "first ones": "最前的",
    "last ones": "最后的",
    "small ones": "小的",
    "large ones": "大的",
    "narrow ones": "窄的",
    "wide ones": "宽的",
    "rare ones": "少见的",
    "common ones": "常见的",
}


def translate_system(name: str, language: str) -> str:
    """Returns the name of a system in a language of PAGE_TEXTS."""
    return "：".join(_PARTS_ZH.get(part, part) for part in name.split(": ")) if language == "zh" else name


def render_shortcuts_page(manifest: Mapping[str, Any], tables: Mapping[str, pd.DataFrame], language: str) -> str:
    """Returns the page of the tables of `querytruth.audit.shortcuts.find_shortcuts`."""
    words, table, queries = PAGE_TEXTS[language], tables["shortcuts"], tables["queries"]
    end = max(1e-9, float(table[["high", "random"]].max().max())) if len(table) else 1.0
    rows = [
        {
            **row,
            "name": translate_system(row["system"], language),
            "places": {name: round(100 * row[name] / end, 2) for name in ("ndcg", "low", "high", "random")},
            "examples": queries.loc[queries["system"] == row["system"], "text"].head(EXAMPLES).tolist(),
        }
        for row in table.to_dict("records")
    ]
    return render_template(
        "shortcuts_page.html",
        t=words,
        language=language,
        name=f"{manifest['name']}/v{manifest['version']}",
        rows=rows,
        beaten=int(table["beats_chance"].sum()),
        summary=words["beaten"].format(count=len(rows)),
    )
