"""Families of queries from public annotations, against their truth in SQL over the same JSON."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from flows.definition_loader import load_definition
from flows.set_kinds import build_set
from querytruth.sets import set_files

duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
FAMILIES = ["count", "size", "spatial", "negation", "attribute"]
LEAST = 5

BOXES = """
CREATE TABLE file AS SELECT * FROM read_json('{path}', maximum_object_size = 100000000);
CREATE TABLE image AS SELECT i.id, i.file_name AS name, i.width, i.height FROM (SELECT unnest(images) AS i FROM file);
CREATE TABLE category AS SELECT c.id, c.name FROM (SELECT unnest(categories) AS c FROM file);
CREATE TABLE box AS
SELECT image.name AS image, category.name AS label, a.attributes,
       greatest(a.bbox[1] / width, 0) AS l, greatest(a.bbox[2] / height, 0) AS t,
       least((a.bbox[1] + a.bbox[3]) / width, 1) AS r, least((a.bbox[2] + a.bbox[4]) / height, 1) AS b
FROM (SELECT unnest(annotations) AS a FROM file) JOIN image ON a.image_id = image.id
JOIN category ON a.category_id = category.id;
CREATE TABLE seen AS
SELECT image, label, count(*) AS n, max((r - l) * (b - t)) AS largest, min((r - l) * (b - t)) AS smallest
FROM box GROUP BY image, label;
CREATE TABLE pair AS
SELECT one.image, one.label AS first, other.label AS second,
       bool_or(one.r + 0.02::DOUBLE <= other.l) AS some_left, bool_and(one.r + 0.02::DOUBLE <= other.l) AS all_left,
       bool_or(other.r + 0.02::DOUBLE <= one.l) AS some_right, bool_and(other.r + 0.02::DOUBLE <= one.l) AS all_right,
       bool_or(one.b + 0.02::DOUBLE <= other.t) AS some_above, bool_and(one.b + 0.02::DOUBLE <= other.t) AS all_above,
       bool_or(other.b + 0.02::DOUBLE <= one.t) AS some_below, bool_and(other.b + 0.02::DOUBLE <= one.t) AS all_below
FROM box one JOIN box other ON one.image = other.image AND one.label <> other.label GROUP BY ALL;
"""
TRUTH = """
SELECT 'count/2' AS family, [label] AS labels, image, n = 2 AS is_right FROM seen
UNION ALL SELECT 'count/3+', [label], image, n >= 3 FROM seen
UNION ALL SELECT 'size/large', [label], image, largest >= 0.3::DOUBLE FROM seen
  WHERE largest >= 0.3::DOUBLE OR largest <= 0.02::DOUBLE
UNION ALL SELECT 'size/small', [label], image, largest <= 0.02::DOUBLE FROM seen
  WHERE largest <= 0.02::DOUBLE OR smallest >= 0.3::DOUBLE
UNION ALL SELECT 'negation/without', [shown.label, missing.name], shown.image, seen.label IS NULL
  FROM seen shown CROSS JOIN category missing
  LEFT JOIN seen ON seen.image = shown.image AND seen.label = missing.name WHERE shown.label <> missing.name
UNION ALL SELECT 'spatial/left', [first, second], image, some_left FROM pair WHERE some_left OR all_right
UNION ALL SELECT 'spatial/right', [first, second], image, some_right FROM pair WHERE some_right OR all_left
UNION ALL SELECT 'spatial/above', [first, second], image, some_above FROM pair WHERE some_above OR all_below
UNION ALL SELECT 'spatial/below', [first, second], image, some_below FROM pair WHERE some_below OR all_above
UNION ALL SELECT 'attribute/' || name, [label], image, bool_or(list_contains(attributes, name))
  FROM box CROSS JOIN (SELECT DISTINCT unnest(attributes) AS name FROM box) GROUP BY label, image, name
"""
# Of places, one order of two labels is asked; of absences, those of what is often seen together.
ASKED = """
SELECT family, labels FROM truth GROUP BY family, labels
HAVING count_if(is_right) >= $least AND (family NOT LIKE 'negation%' OR count_if(NOT is_right) >= $least)
AND (family NOT LIKE 'spatial%' OR (SELECT a.id < b.id FROM category a, category b
     WHERE a.name = labels[1] AND b.name = labels[2]))
"""


def build_and_compare(folder: Path, source: Path) -> tuple[int, int]:
    """Return the number of questions and of judgments that were compared; each box is given a colour by its number."""
    data = json.loads(source.read_text())
    for number, record in enumerate(data["annotations"]):
        record["attributes"] = [("red", "green", "blue")[number % 3]]
        record.pop("segmentation", None)
    names = [category["name"] for category in sorted(data["categories"], key=lambda category: category["id"])]
    (folder / "boxes.json").write_text(json.dumps(data))
    with (folder / "labels.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "name", "zh", "en", "article", "plural", "parent"])
        rows.writerows([number, name, name, name, "a", f"{name}s", ""] for number, name in enumerate(names, 1))
    definition = {
        "name": "real",
        "kind": "precision",
        "annotations": "boxes.json",
        "labels": str(folder),
        "searchable": {"min_images": 1, "area_ratio": 0.0},
        "mixes": {"levels": 1, "near_misses": 10_000},
        "families": FAMILIES,
        "family_rules": {"min_images": LEAST, "cap": None},
        "texts": ["word"],
        "languages": ["en"],
        "exhaustive": True,
        "exhaustive_attributes": True,
        "out": str(folder),
    }
    (folder / "real.yaml").write_text(json.dumps(definition))
    built = build_set(load_definition(folder / "real.yaml", [], "precision"))
    tables = set_files.read_set(built.path).tables
    with duckdb.connect() as database:
        database.execute(BOXES.format(path=folder / "boxes.json"))
        database.execute(f"CREATE TABLE truth AS {TRUTH}")
        found = _join(tables.queries, tables.qrels, tables.images)
        database.register("found", found)
        database.execute("CREATE TABLE judged AS SELECT family, labels, image, is_right FROM found")
        database.execute(f"CREATE TABLE asked AS {ASKED}", {"least": LEAST})
        questions = "SELECT DISTINCT family, labels FROM judged"
        for one, other in ((questions, "FROM asked"), ("FROM asked", questions)):
            assert database.execute(f"({one}) EXCEPT ({other})").fetchall() == []
        expected = "SELECT truth.* FROM truth JOIN asked USING (family, labels)"
        for one, other in (("FROM judged", expected), (expected, "FROM judged")):
            assert database.execute(f"({one}) EXCEPT ({other})").fetchall() == []
        (asked,) = database.execute("SELECT count(*) FROM asked").fetchone() or (0,)
    return asked, len(found)


def _join(queries: pd.DataFrame, qrels: pd.DataFrame, images: pd.DataFrame) -> pd.DataFrame:
    """The judgments of the queries of families: family, labels, image, is_right."""
    of_families = queries[queries["family"].notna()][["query_id", "family", "labels"]]
    plain = qrels[["query_id", "image_id", "relevance"]].astype({"query_id": "str", "image_id": "str"})
    joined = plain.merge(of_families, on="query_id").merge(images[["image_id", "file_name"]], on="image_id")
    joined["labels"] = joined["labels"].map(list)
    return joined.assign(image=joined["file_name"], is_right=joined["relevance"] > 0)


@pytest.mark.parametrize(
    ("name", "questions", "judgments"),
    [("taco_annotations.json", 895, 74_787), ("pascal_test2007.json", 363, 124_703)],
)
@pytest.mark.slow
def test_all_families_have_the_truth_of_sql(
    tmp_path: Path, shared: Callable[[str], Path], name: str, questions: int, judgments: int
) -> None:
    assert build_and_compare(tmp_path, shared(f"boxes_only/{name}")) == (questions, judgments)
