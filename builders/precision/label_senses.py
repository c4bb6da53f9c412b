"""Which sense of its name a label has: its parent, the labels on the same images, and what a model says of these.

A crane on images of trucks and people is a machine (起重机), and no bird (鹤); both are called crane when they are
translated back.
"""

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd

from querytruth.sets.query_texts import simplify_name

NEIGHBOURS = 3
_LEAST_SHARED = 2  # images
_PARENT = {"zh": "它属于“{}”。", "en": "It belongs to “{}”. "}
_TOGETHER = {"zh": "它常和{}出现在同一张图片里。", "en": "On the same images there often is {}. "}
_YES = {"zh": re.compile(r"^(?:是|对|可以)"), "en": re.compile(r"^yes\b", re.IGNORECASE)}
_NO = {"zh": re.compile(r"^(?:否|不|没)"), "en": re.compile(r"^no\b", re.IGNORECASE)}
_LOOSE = " \t\n*“”\"'「」。.：:"


def find_neighbours(boxes: pd.DataFrame, categories: pd.DataFrame) -> list[list[str]]:
    """Returns for each category (columns id, name) the names of those that share most images with it for how often both
    are there, the closest first. `boxes` has the columns image and category."""
    from scipy.sparse import csr_matrix

    count = len(categories)
    label = pd.Index(categories["id"].to_numpy(dtype=object)).get_indexer(boxes["category"].to_numpy(dtype=object))
    image = pd.factorize(boxes["image"])[0]
    known = label >= 0
    cells = (np.ones(int(known.sum()), np.float64), (image[known], label[known]))
    on_image = csr_matrix(cells, shape=(int(image.max(initial=-1)) + 1, count))
    on_image.data[:] = 1
    shared = (on_image.T @ on_image).toarray()
    images = np.maximum(np.diag(shared), 1)
    closeness = np.where(shared >= _LEAST_SHARED, shared / np.sqrt(np.outer(images, images)), 0)
    np.fill_diagonal(closeness, 0)
    names = categories["name"].astype("str").tolist()
    order = np.argsort(-closeness.round(9), axis=1, kind="stable")[:, :NEIGHBOURS]
    return [[names[one] for one in row if closeness[place, one] > 0] for place, row in enumerate(order.tolist())]


def describe_context(parent: str, neighbours: Sequence[str], language: str) -> str:
    """Returns what a question says of a label besides its name; '' where nothing is known. `language`: the
    question's."""
    text = _PARENT[language].format(parent) if parent else ""
    if neighbours:
        quoted = [f"“{name}”" for name in neighbours]
        text += _TOGETHER[language].format("".join(quoted) if language == "zh" else ", ".join(quoted))
    return text


def parse_sense(reply: str, language: str) -> bool | None:
    """Returns whether a model says that a word means the label's things; None where it says neither."""
    text = reply.strip().lstrip(_LOOSE)
    return True if _YES[language].match(text) else False if _NO[language].match(text) else None


def is_named_within(one: str, other: str) -> bool:
    """Whether one name is the other one said more precisely: "mouse" and "computer mouse", but not "cat" and
    "catfish"."""
    first, second = (set(simplify_name(name).split()) for name in (one, other))
    if first <= second or second <= first:
        return bool(first and second)
    shorter, longer = sorted((simplify_name(one), simplify_name(other)), key=len)
    return not shorter.isascii() and longer.endswith(shorter)
