"""A table of facts as annotations of whole images."""

from pathlib import Path

import numpy as np
import pytest

from builders.precision.annotation_files import read_annotations
from builders.precision.definition import FactOptions
from builders.precision.fact_files import find_unknown, is_fact_file, join_facts
from builders.precision.label_index import bit_positions
from builders.precision.tag_tree import LabelConcept
from querytruth.errors import UserError

TABLE = """image,kind,value,zh,source,region,confidence,detail,corrected
a.jpg,person,Grace,,xmp,0 0 0.5 0.5,,,Gracie
a.jpg,city,Bath,巴斯,xmp,,,,
b.jpg,person,Tom,,xmp,,,,
b.jpg,country,France,,iptc,,,overruled by xmp,
b.jpg,keyword,sea,,xmp,,,,-
"""


def test_facts_are_tags_with_kinds_corrections_and_contradictions(tmp_path: Path) -> None:
    (tmp_path / "facts.csv").write_text(TABLE, encoding="utf-8")
    file = read_annotations(tmp_path / "facts.csv")
    names = file.categories.set_index("id")
    found = {
        (image, names["kind"][code], names["name"][code], names["zh"][code])
        for image, code in zip(file.boxes["image"], file.boxes["category"], strict=True)
    }
    assert found == {
        ("a.jpg", "person", "Gracie", "Gracie"),
        ("a.jpg", "city", "Bath", "巴斯"),
        ("b.jpg", "person", "Tom", "Tom"),
    }
    assert file.rejected_boxes[["item", "reason"]].to_numpy().tolist() == [["facts.csv line 5", "contradiction"]]
    assert (file.boxes_entered, len(file.boxes)) == (4, 3)


def test_a_table_of_tags_is_no_table_of_facts(tmp_path: Path) -> None:
    (tmp_path / "tags.csv").write_text("file_name,tag\na.jpg,sea\n")
    (tmp_path / "facts.csv").write_text("image,kind,value\na.jpg,keyword,sea\n")
    assert (is_fact_file(tmp_path / "tags.csv"), is_fact_file(tmp_path / "facts.csv")) == (False, True)
    assert is_fact_file(tmp_path / "missing.csv") is False


def test_a_person_without_a_pseudonym_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "facts.csv").write_text("image,kind,value\na.jpg,person,Gracie\n")
    (tmp_path / "names.csv").write_text("name,pseudonym\nTom,Person 1\n")
    with pytest.raises(UserError, match="lacks 'Gracie'"):
        read_annotations(tmp_path / "facts.csv", facts=FactOptions(pseudonyms=tmp_path / "names.csv"))


def test_what_is_not_known_to_be_absent_may_be_there(tmp_path: Path) -> None:
    (tmp_path / "facts.csv").write_text(TABLE, encoding="utf-8")
    file = read_annotations(tmp_path / "facts.csv")
    # the gallery's order is b, a; a third image is of the folder alone
    facts = join_facts([file], (np.array([1, 0, 2]),), 3)
    assert facts is not None and facts["faces"].tolist() == [1, 1, 0]
    concepts = [LabelConcept(kind, "", kind, kind, kind=kind) for kind in ("person", "city", "keyword")]
    unknown = find_unknown(facts, [*concepts, LabelConcept("dog", "", "狗", "dog")])
    assert [bit_positions(row).tolist() for row in unknown] == [[0, 2], [0, 2], [0, 1, 2], []]
    assert join_facts([], (), 3) is None
