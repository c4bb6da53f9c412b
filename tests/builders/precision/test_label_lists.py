"""Lists of labels by image, joined to the labels and images of a gallery."""

from typing import Any

import numpy as np
import pandas as pd

from builders.precision.annotated_gallery import AnnotationFile
from builders.precision.label_index import LabelListFile, LabelLists, join_label_lists
from querytruth.sets.ledger import rejection_table

NOTHING = rejection_table([])


def make_file(images: list[Any], categories: list[Any]) -> AnnotationFile:
    tables = pd.DataFrame({"id": images}), pd.DataFrame(), pd.DataFrame({"id": categories})
    return AnnotationFile("boxes.json", "d", *tables, len(images), 0, NOTHING, NOTHING)


def join(absent: list[Any], partial: list[Any], listed: list[Any], codes: list[int], rows: list[int]) -> LabelLists:
    """The lists of a file with the images 10, 11, 12 and categories 5, 6 …, of labels `codes`."""
    columns = [np.array([pair[side] for pair in pairs], dtype=object) for pairs in (absent, partial) for side in (0, 1)]
    lists = LabelListFile("d", columns[0], columns[1], columns[2], columns[3], np.array(listed, dtype=object))
    file = make_file([10, 11, 12], [5 + place for place in range(len(codes))])
    return join_label_lists([file], {"d": lists}, [np.array(codes)], [np.array(rows)], max(rows) + 1)


def test_unknown_images_and_categories_say_nothing() -> None:
    lists = join([(10, 5), (99, 5), (11, 77)], [], [10, 99], [0], [0, 1, -1])
    assert lists.is_absent(0).tolist() == [True, False] and lists.is_listed.tolist() == [True, False]


def test_a_label_of_two_spellings_is_absent_where_both_are() -> None:
    lists = join([(10, 5), (10, 6), (11, 6)], [], [], [0, 0], [0, 1, 2])
    assert lists.is_absent(0).tolist() == [True, False, False]


def test_copies_of_an_image_are_listed_where_all_of_them_are() -> None:
    """Images 10 and 11 have the same bytes."""
    lists = join([], [(11, 5)], [10, 12], [0], [0, 0, 1])
    assert lists.is_listed.tolist() == [False, True]
    assert lists.is_whole(0, np.array([True, True])).tolist() == [False, True]


def test_boxes_of_a_label_that_is_listed_as_absent_are_unknown() -> None:
    lists = join([(10, 5), (11, 5)], [(12, 5)], [10, 11, 12], [0], [0, 1, 2])
    assert lists.is_whole(0, np.array([True, False, True])).tolist() == [False, True, False]
