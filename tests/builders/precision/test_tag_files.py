"""Tags of whole images, such as day and night, as annotations."""

import json
from pathlib import Path

import pytest

from builders.precision.tag_files import read_tags, read_unsure_tags
from flows.definition_loader import load_definition
from flows.set_kinds import build_set
from querytruth.errors import UserError
from querytruth.sets.set_files import read_set
from tests.images import draw_scene

TAGS = """file_name,tag,score,group
p0.png,白天,0.9,时间
p1.png,白天,0.8,时间
p2.png,黑夜,0.9,时间
p3.png,黑夜,0.2,时间
p0.png,海,,
p2.png,海,,
p3.png,,0.9,
p3.png,狗,much,
"""


@pytest.fixture
def album(tmp_path: Path) -> Path:
    (tmp_path / "photos").mkdir()
    for number in range(4):
        draw_scene(number).save(tmp_path / f"photos/p{number}.png")
    return tmp_path


def write(album: Path, name: str, text: str) -> Path:
    (album / name).write_text(text, "utf-8")
    return album / name


def keys(album: Path, tags: Path, *more: str) -> list[str]:
    places = [f"annotations={tags}", f"images={album / 'photos'}", f"out={album / 'sets'}", "name=tagged"]
    rules = ["searchable.min_images=1", "mixes.min_images=1", "mixes.levels=2", "languages=[zh]", "texts=[word]"]
    return [*places, *rules, "render=null", *more]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('image,tags\np0.png,"dog, red car"\np1.png,dog\n', ["dog", "red car"]),
        ("image;tags\np0.png;dog, red car\np1.png;dog\n", ["dog", "red car"]),
        ("image,tag\np0.png,dog|red car\np1.png,dog\n", ["dog", "red car"]),
        ("图片,标签\np0.png,狗、汽车\np1.png,狗\n", ["狗", "汽车"]),
        ('image,label\np0.png,"tench, Tinca tinca"\n', ["tench, Tinca tinca"]),
    ],
)
def test_a_cell_may_hold_several_tags_and_a_label_may_hold_a_comma(album: Path, text: str, names: list[str]) -> None:
    assert read_tags(write(album, "tags.csv", text)).categories["name"].tolist() == names


def test_a_score_lies_between_0_and_1_and_an_unsure_one_is_no_tag(tmp_path: Path) -> None:
    rows = [f"{letter}.png,dog,{score}" for letter, score in zip("abcdef", (0, 0.2, 0.5, 1, 1.5, -0.1), strict=True)]
    read = read_tags(write(tmp_path, "tags.csv", "\n".join(["image,tag,score", "b.png,cat,1", *rows])), 0.5)
    assert list(zip(read.boxes["image"], read.boxes["category"], strict=True)) == [
        ("b.png", 0),
        ("c.png", 1),
        ("d.png", 1),
    ]
    reasons = read.rejected_boxes.groupby("reason")["item"].agg(list).to_dict()
    assert reasons == {
        "low_score": ["tags.csv line 3", "tags.csv line 4"],
        "bad_score": ["tags.csv line 7", "tags.csv line 8"],
    }
    assert read.boxes["crowd"].all(), "how often something is there is not known"
    unsure = read_unsure_tags(read, 0.1, 0.5).boxes
    assert list(zip(unsure["image"], unsure["score"], strict=True)) == [("b.png", 0.2)]


def test_a_query_s_right_images_are_those_with_its_tag(album: Path) -> None:
    result = build_set(
        load_definition(None, keys(album, write(album, "tags.csv", TAGS), "render={size: 64}"), "precision")
    )

    tables = read_set(result.path).tables
    names = tables.images.set_index("image_id")["file_name"]
    right = tables.qrels[tables.qrels["relevance"] > 0].assign(name=lambda one: one["image_id"].map(names))
    of_text = {
        text: sorted(right.loc[right["query_id"] == query, "name"])
        for text, query in zip(tables.queries["text"], tables.queries["query_id"], strict=True)
    }
    assert {text: of_text[text] for text in ("白天", "黑夜", "海")} == {
        "白天": ["p0.png", "p1.png"], "黑夜": ["p2.png"], "海": ["p0.png", "p2.png"]
    }  # fmt: skip
    pair = next(names for text, names in of_text.items() if "海" in text and "白天" in text)
    assert pair == ["p0.png"]
    rejected = tables.ledger[tables.ledger["stage"] == "boxes"].set_index("reason")["item"].to_dict()
    assert rejected == {
        "low_score": "tags.csv line 5",
        "missing_tag": "tags.csv line 8",
        "bad_score": "tags.csv line 9",
    }


def test_every_photo_of_the_folder_is_in_the_gallery_whatever_its_tags_are(album: Path) -> None:
    """Of four photos one has no tag that counts, and the table does not name another."""
    tags = write(album, "tags.csv", "file_name,tag,score\np0.png,狗,0.9\np1.png,狗,0.8\np2.png,狗,0.2\n")
    built = build_set(load_definition(None, keys(album, tags, "tags={at_least: 0.5}"), "precision"))
    tables = read_set(built.path).tables
    assert sorted(tables.images["file_name"]) == ["p0.png", "p1.png", "p2.png", "p3.png"]
    assert len(tables.qrels) == 2, "nobody says anything of the others"


def test_a_tag_that_is_too_unsure_to_count_proposes_a_judgment(album: Path) -> None:
    """Of images and tags that the file names surely elsewhere; it is no truth, and no explicit negative."""
    tags = write(album, "tags.csv", TAGS + "p3.png,海,0.9,\np1.png,海,0.05,\np1.png,狗,0.3,\n")
    rules = ["tags.at_least=0.5", "tags.propose_from=0.1"]
    plain = read_set(build_set(load_definition(None, keys(album, tags, "tags.at_least=0.5"), "precision")).path)
    tables = read_set(build_set(load_definition(None, keys(album, tags, *rules, "name=more"), "precision")).path).tables
    texts = dict(zip(tables.queries["query_id"], tables.queries["text"], strict=True))
    names = dict(zip(tables.images["image_id"], tables.images["file_name"], strict=True))
    proposed = {
        (texts[row.query_id], names[row.image_id]): row.evidence for row in tables.candidate_judgments.itertuples()
    }
    assert proposed["黑夜", "p3.png"] == "not annotated: 黑夜 0.20 (tags.csv)"
    assert {image for _, image in proposed} == {"p3.png"} and len(plain.tables.candidate_judgments) == 0
    with pytest.raises(UserError, match="a single file of tags and no detections"):
        load_definition(None, keys(album, tags, *rules, f"detections.results={tags}"), "precision")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("tags.jsonl", json.dumps({"image": "p0.png", "tags": ["day", "sea"]}) + "\n"
         + json.dumps({"image": "p1.png", "tags": {"day": 0.7, "sea": 0.1}})),
        ("tags.tsv", "path\tlabels\np0.png\tday;sea\np1.png\tday\n"),
        ("tags.csv", "\ufeffImage,Tag,Score\np0.png,day,1\np0.png,sea,0.5\np1.png,day,0.99\np1.png,sea,0.4\n"),
    ],
)  # fmt: skip
def test_all_forms_hold_the_same_tags(tmp_path: Path, name: str, text: str) -> None:
    read = read_tags(write(tmp_path, name, text), 0.5)
    labels = read.categories.set_index("id")["name"]
    assert list(zip(read.boxes["image"], read.boxes["category"].map(labels), strict=True)) == [
        ("p0.png", "day"), ("p0.png", "sea"), ("p1.png", "day")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a,b\n1,2\n", "has the columns a, b. Next: name the columns of images .file_name"),
        ("file_name,tag\n", "has no tags in 0 rows"),
        ("file_name,tag,score\na.jpg,dog,0.1\n", "lower tags.at_least"),
    ],
)
def test_a_table_without_tags_is_one_line(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        read_tags(write(tmp_path, "tags.csv", text), 0.5)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (["families=[count]", "exhaustive=true"], "tags of whole images have none"),
        (["images=null"], "need the folder of the images"),
        (["boxes.crowd=false"], "excludes tags"),
    ],
)
def test_what_needs_boxes_is_refused(album: Path, more: list[str], reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        load_definition(None, keys(album, write(album, "tags.csv", TAGS), *more), "precision")
