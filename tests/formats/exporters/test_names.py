"""Queries that name people, places or texts of an album leave a set only where that is said."""

from pathlib import Path

import pandas as pd
import pytest

import querytruth as qt
from flows.definition_loader import load_definition
from flows.door import Door, write_static
from flows.set_kinds import build_set
from querytruth.errors import UserError
from querytruth.sets.set_files import read_set
from tests.images import draw_scene

FACTS = """image,kind,value,zh,source,region
a.png,person,Gracie,,xmp,0 0 1 1
a.png,date,2019-05-03,,exif,
b.png,date,2019-05-04,,exif,
b.png,city,Bath,,xmp,
"""


@pytest.fixture
def album(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    for number, name in enumerate("ab"):
        draw_scene(number).save(tmp_path / f"photos/{name}.png")
    (tmp_path / "facts.csv").write_text(FACTS)
    return _build("album")


def _build(name: str, *more: str) -> Path:
    keys = [
        "annotations=facts.csv",
        "images=photos",
        f"name={name}",
        "render.size=32",
        "texts=[word]",
        "languages=[en]",
    ]
    keys += ["searchable.min_images=1", "searchable.area_ratio=0", "mixes.levels=1", *more]
    return build_set(load_definition(None, keys, "precision")).path


def test_an_export_leaves_out_names_and_all_that_speaks_of_them(album: Path, tmp_path: Path) -> None:
    lost = qt.load(album).export("csv", tmp_path / "out", allow_loss=True)
    assert "2 queries that name people, places or texts (--with-names keeps them)" in lost
    texts = "".join(file.read_text("utf-8", "replace") for file in (tmp_path / "out").rglob("*") if file.is_file())
    assert "Gracie" not in texts and "Bath" not in texts and "May 2019" in texts
    kept = qt.load(album).export("csv", tmp_path / "named", allow_loss=True, with_names=True)
    assert not any("--with-names" in line for line in kept)
    assert "Gracie" in pd.read_csv(tmp_path / "named/queries.csv")["text"].tolist()


def test_publishing_and_static_pages_refuse_names_unless_they_are_allowed(album: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"names people, places or texts in 2 queries.*--with-names"):
        qt.load(album).publish("s3://nowhere/sets")
    with pytest.raises(UserError, match=r"names people.*--with-names"):
        write_static(Door(tmp_path, tmp_path / "datasets"), tmp_path / "site")
    assert write_static(Door(tmp_path, tmp_path / "datasets"), tmp_path / "site", with_names=True).is_file()


def test_pseudonyms_are_the_same_in_all_versions_and_name_nobody(album: Path, tmp_path: Path) -> None:
    (tmp_path / "names.csv").write_text("name,pseudonym\nGracie,Person 1\n")
    first = _build("hidden", "facts.pseudonyms=names.csv")
    (tmp_path / "facts.csv").write_text(FACTS + "b.png,person,Adam,,xmp,0 0 1 1\n")
    (tmp_path / "names.csv").write_text("name,pseudonym\nGracie,Person 1\nAdam,Person 2\n")
    second = _build("hidden", "facts.pseudonyms=names.csv")
    tables = [read_set(path).tables for path in (first, second)]
    assert [path.name for path in (first, second)] == ["v1", "v2"]
    for one in tables:
        assert "Person 1" in set(one.queries["text"]) and not one.queries["text"].str.contains("Gracie|Adam").any()
    asked = [one.queries.set_index("text")["query_id"]["Person 1"] for one in tables]
    assert asked[0] == asked[1]
