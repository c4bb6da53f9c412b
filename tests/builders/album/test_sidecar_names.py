"""Which document is about which photo."""

import pytest

from builders.album.sidecar_names import find_documents


@pytest.mark.parametrize(
    ("document", "image"),
    [
        ("a.jpg.xmp", "a.jpg"),
        ("a.xmp", "a.jpg"),
        ("A.JPG.XMP", "A.JPG"),
        ("a.yml", "a.jpg"),
        ("a.jpg.json", "a.jpg"),
        ("a.jpg.supplemental-metadata.json", "a.jpg"),
        ("a.jpg.supplemental-me.json", "a.jpg"),
        ("a.jpg.s.json", "a.jpg"),
        ("a.jpg(1).json", "a(1).jpg"),
        ("a.jpg.supplemental-metadata(1).json", "a(1).jpg"),
        ("a.jpg.json", "a-edited.jpg"),
        ("a.jpg.supplemental-metadata.json", "a-bearbeitet.jpg"),
        ("x" * 46 + ".json", "x" * 47 + ".jpg"),
        ("y" * 30 + ".jpg.supplementa.json", "y" * 30 + ".jpg"),
        ("album/metadata.json", "album/a.jpg"),
        ("album/Metadaten.json", "album/a.jpg"),
    ],
)
def test_a_document_is_found_by_the_spellings_of_its_program(document: str, image: str) -> None:
    assert find_documents([image, document]) == ([image], {document: [image]})


@pytest.mark.parametrize("document", ["b.jpg.json", "other/a.jpg.json", "a.jpg(2).json", "ab.json", "notes.json"])
def test_a_document_of_another_photo_is_about_none(document: str) -> None:
    assert find_documents(["a.jpg", "a(1).jpg", document])[1] == {document: []}


def test_a_counter_belongs_to_its_photo_alone() -> None:
    names = ["a.jpg", "a(1).jpg", "a.jpg.json", "a.jpg(1).json"]
    assert find_documents(names)[1] == {"a.jpg(1).json": ["a(1).jpg"], "a.jpg.json": ["a.jpg"]}
