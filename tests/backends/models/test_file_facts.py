"""Descriptions of a table of facts as captions of recall sets."""

from pathlib import Path

from flows.definition_loader import load_definition
from flows.set_kinds import build_set
from querytruth.sets.set_files import read_set
from tests.images import draw_scene

TABLE = """image,kind,value,corrected
a.png,description,A drawing with many colours,
a.png,keyword,sea,
b.png,description,OLYMPUS,Blotches of paint in a row
c.png,description,not this one,-
"""


def test_descriptions_are_captions_as_people_corrected_them(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    for number, name in enumerate("abc"):
        draw_scene(number).save(tmp_path / f"photos/{name}.png")
    (tmp_path / "facts.csv").write_text(TABLE)
    keys = [
        "images=photos",
        "name=told",
        "captions.model=file_facts",
        "captions.options.path=facts.csv",
        "ambiguity.text_embedder=char_ngrams",
        "render.size=32",
    ]
    tables = read_set(build_set(load_definition(None, keys, "recall")).path).tables
    name_of = dict(zip(tables.images["image_id"], tables.images["file_name"], strict=True))
    found = {
        name_of[image]: text
        for image, text in zip(tables.queries["source_image_id"], tables.queries["text"], strict=True)
    }
    assert found == {"a.png": "A drawing with many colours", "b.png": "Blotches of paint in a row"}
