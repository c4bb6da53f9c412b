"""The gallery build, end to end: from a folder of whatever was found to a published set, the same however it is run."""

import os
from pathlib import Path
from typing import Any
from zipfile import ZipFile, ZipInfo

import pytest
from PIL import Image, ImageFilter

from builders.publication import BuildResult
from flows.definition_loader import load_definition
from flows.set_kinds import build_set, plan_set
from querytruth.backends.images import scan_parts
from querytruth.backends.images.image_reading import read_image
from querytruth.backends.images.jpeg_files import read_plain_jpeg_header
from querytruth.backends.steps import BuildRun, active_run
from querytruth.sets import set_files
from tests.flows.stub_generator import Listener
from tests.images import draw_scene
from tests.manifest_cuts import unrecorded_cuts
from tests.worlds import build_of, define_gallery, fill_pile, save_photo


def test_photos_keep_their_shape_and_the_set_lists_both_sizes(tmp_path: Path) -> None:
    for n, size in enumerate([(1600, 1200), (600, 900), (160, 120)]):
        save_photo(tmp_path / "photos" / f"{n}.jpg", n, size=size)
    result = build(define_gallery(tmp_path, tmp_path / "photos"), workers=1)
    assert result.manifest["configuration"]["render"] == {"size": 512, "mode": "longer_side"}
    images = set_files.read_set(result.path).tables.images.sort_values("file_name")
    sizes = images[["width", "height", "rendered_width", "rendered_height"]].to_numpy().tolist()
    assert sizes == [[1600, 1200, 512, 384], [600, 900, 341, 512], [160, 120, 160, 120]]
    for path, size in zip(images["path"], sizes, strict=True):
        assert list(Image.open(result.path / path).size) == size[2:]


def test_a_gallery_below_its_own_photos_does_not_read_itself(tmp_path: Path) -> None:
    for n in range(2):
        save_photo(tmp_path / "photos" / f"{n}.jpg", n)
    definition, out = define_gallery(tmp_path, tmp_path / "photos"), f"out={tmp_path / 'photos' / 'sets'}"
    first, again = build(definition, out, workers=1), build(definition, out, workers=1)
    assert first.is_new and not again.is_new and stages(again.manifest)["list"]["entered"] == 2


def build(path: Path, *overrides: str, rescan: bool = False, workers: int = 2) -> BuildResult:
    return build_of("gallery", path, *overrides, workers=workers, rescan=rescan)


def stages(manifest: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {stage["stage"]: stage for stage in manifest["funnel"]}


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> BuildResult:
    """The gallery of the pile, to be read and not changed."""
    folder = tmp_path_factory.mktemp("published")
    return build(define_gallery(folder, fill_pile(folder / "pile")))


def test_a_pile_becomes_a_gallery_and_everything_is_accounted_for(published: BuildResult) -> None:
    result = published
    told = stages(result.manifest)
    assert unrecorded_cuts(result.manifest) == []
    assert told["list"]["rejected"] == {"link_out_of_folder": 1, "not_a_regular_file": 1}
    assert told["scan"]["quarantined"] == {"cannot_be_decoded": 1, "not_an_image": 1}
    assert told["filter"]["rejected"] == {"too_wide": 1}
    assert told["duplicates"]["rejected"] == {"exact_duplicate": 1, "near_duplicate": 3}
    assert [told[name]["accepted"] for name in ("list", "scan", "filter", "duplicates", "select", "render")] == [
        19, 17, 16, 12, 12, 12,
    ]  # fmt: skip
    tables = set_files.read_set(result.path).tables
    assert len(tables.images) == 12 and not len(tables.queries) and not len(tables.qrels)
    ledger = tables.ledger.set_index("item")
    assert ledger.loc["torn.jpg", "reason"] == "cannot_be_decoded"
    assert ledger.loc["banner.png", ["measure", "value", "threshold"]].tolist() == ["ratio", 10, 5]
    assert list(set_files.verify_set(result.path)) == []
    sizes = {Image.open(result.path / path).size for path in tables.images["path"]}
    assert sizes == {(160, 120)}, "none is enlarged"


def test_the_groups_say_who_stands_for_whom_and_why(published: BuildResult) -> None:
    tables = set_files.read_set(published.path).tables
    duplicates = tables.duplicates
    ways = {row.item: row.matched_by for row in duplicates.itertuples() if not row.is_representative}
    assert {ways["02 small.jpg"], ways["03 darker.png"]} <= {"views"}
    assert "pixels" in (ways.get("day 1/01.jpg"), ways.get("day 1/01 without exif.jpg"))
    assert ways.get("copy of 00.jpg", ways.get("day 0/00.jpg")) == "bytes"
    stand = duplicates[duplicates["is_representative"]]
    assert set(stand["image_id"]) <= set(tables.images["image_id"])
    named = tables.images.set_index("image_id")["duplicate_group"].dropna()
    assert dict(named) == dict(zip(stand["image_id"], stand["duplicate_group"], strict=True))
    assert "02 small.jpg" not in set(stand["item"]), "the larger one stands for the smaller"


@pytest.mark.thorough
def test_places_and_times_are_told_and_chosen_by(tmp_path: Path) -> None:
    path = define_gallery(tmp_path, fill_pile(tmp_path / "pile"), select={"count": 3})
    tables = set_files.read_set(build(path).path).tables
    assert sorted(tables.images["latitude"]) == [10.0, 11.0, 12.0], "three images of three places"
    assert set(tables.images["longitude"]) == {20.0}
    assert all(time.startswith("2024-05-0") for time in tables.images["taken_at"])
    larger = set_files.read_set(build(path, "select.count=8", "name=larger").path).tables
    assert set(tables.images["image_id"]) < set(larger.images["image_id"])
    assert stages(build(path, "select.count=8", "name=larger").manifest)["select"]["rejected"] == {"not_selected": 4}


def test_a_second_build_reads_only_what_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def counted(locations: Any) -> Any:
        for found in map(read_image, locations):
            read.append(found.path)
            yield found

    monkeypatch.setitem(scan_parts.scan_part.__kwdefaults__, "read", counted)
    path = define_gallery(tmp_path, fill_pile(tmp_path / "pile"), render=None)
    first = build(path)
    assert len(read) == 19
    read.clear()
    assert build(path).is_new is False and read == []
    save_photo(tmp_path / "pile" / "new.jpg", 77)
    (tmp_path / "pile" / "day 3" / "07.jpg").unlink()
    second = build(path)
    assert [Path(name).name for name in read] == ["new.jpg"]
    assert (first.version, second.version) == (1, 2)
    read.clear()
    assert build(path, rescan=True).is_new is False and len(read) == 19


def test_a_new_cut_needs_no_new_scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "pile"
    for n in range(6):
        save_photo(folder / f"{n}.jpg", n)
    draw_scene(9).filter(ImageFilter.GaussianBlur(25)).save(folder / "uniform.png")
    path = define_gallery(tmp_path, folder, render=None)
    assert len(set_files.read_set(build(path).path).tables.images) == 7
    nobody = lambda locations: pytest.fail("read again") if list(locations) else iter([])  # noqa: E731
    monkeypatch.setitem(scan_parts.scan_part.__kwdefaults__, "read", nobody)
    told = stages(build(path, "filter.min_contrast=0.1").manifest)
    assert told["filter"]["rejected"] == {"nearly_uniform": 1}


def test_a_table_says_of_its_images_what_the_camera_does_not(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    for number in range(2):
        save_photo(photos / f"{number}.jpg", number)
    draw_scene(60).save(photos / "bare.png")
    rows = ["0.jpg,CC0,https://example.org/0,1999-01-01T00:00:00,1,2", "1.jpg,,,,,"]
    rows.append("bare.png,CC BY 4.0,,2001-02-03T04:05:06,-33.5,151.25")
    (photos / "some.csv").write_text("\n".join(["path,licence,source_url,taken_at,latitude,longitude", *rows]))
    result = build(define_gallery(tmp_path, photos / "some.csv", render=None), workers=1)
    images = set_files.read_set(result.path).tables.images.set_index("file_name")
    assert images.loc["0.jpg", ["licence", "source_url"]].tolist() == ["CC0", "https://example.org/0"]
    assert images.loc["0.jpg", "taken_at"] == "2024-05-01T10:00:00", "the camera knows better than the table"
    assert images.loc["bare.png", ["taken_at", "latitude"]].tolist() == ["2001-02-03T04:05:06", -33.5]


class _UnmarkedName(ZipInfo):
    def _encodeFilenameFlags(self) -> tuple[bytes, int]:
        return self.filename.encode("cp437"), 0


@pytest.mark.parametrize("encoding", ["gb18030", "utf-8", "cp437"])
def test_names_in_an_archive_are_read_in_the_encoding_that_wrote_them(tmp_path: Path, encoding: str) -> None:
    names = ["grün.jpg", "é.jpg"] if encoding == "cp437" else ["海边的狗.jpg", "城市/夜景.jpg", "plain.jpg"]
    with ZipFile(tmp_path / "album.zip", "w") as archive:
        for number, name in enumerate(names):
            save_photo(tmp_path / "some.jpg", number)
            archive.writestr(_UnmarkedName(name.encode(encoding).decode("cp437")), (tmp_path / "some.jpg").read_bytes())
    built = build(define_gallery(tmp_path, f"zip://::file://{tmp_path}/album.zip"))
    assert set(set_files.read_set(built.path).tables.images["file_name"]) == set(names)


def test_a_set_that_only_names_its_images_says_where_they_lie(tmp_path: Path) -> None:
    folder = tmp_path / "pile"
    save_photo(folder / "照片\n1.jpg", 1)
    save_photo(Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.jpg")), 2)
    result = build(define_gallery(tmp_path, folder, render=None))
    tables = set_files.read_set(result.path).tables
    assert [Path(path).read_bytes()[:2] for path in tables.images["path"]] == [b"\xff\xd8"]
    assert dict(zip(tables.ledger["item"], tables.ledger["reason"], strict=True)) == {
        "bytes:caf%E9.jpg": "name_not_utf8"
    }
    rendered = build(define_gallery(tmp_path / "rendered", folder), workers=1)
    assert rendered.manifest["counts"]["images"] == 2


def test_a_plan_counts_and_writes_nothing(tmp_path: Path) -> None:
    path = define_gallery(tmp_path, fill_pile(tmp_path / "pile"), render=None)
    with active_run(BuildRun()):
        plan = plan_set(load_definition(path, [], "gallery"))
    assert not (tmp_path / "sets").exists()
    assert (plan["images"], plan["known_from_before"], plan["model_calls"]) == (19, 0, 0)
    assert plan["seconds_about"] > 0 and plan["bytes_about"] > 0
    build(path)
    with active_run(BuildRun()):
        assert plan_set(load_definition(path, [], "gallery"))["known_from_before"] == 19


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ({"filter": {"max_side": 600}}, "1 images are left out because a side reaches 600 pixels"),
        (
            {"select": {"count": 1000}},
            "select.count asks for 1,000 images, but only 2 are left: all are selected",
        ),
    ],
)
def test_a_build_says_what_it_leaves_out_and_what_it_lacks(keys: dict[str, Any], line: str, tmp_path: Path) -> None:
    save_photo(tmp_path / "photos" / "camera.jpg", 1, size=(600, 400))
    save_photo(tmp_path / "photos" / "phone.jpg", 2, size=(400, 300))
    said = Listener()
    with active_run(BuildRun(said, 1)):
        build_set(load_definition(define_gallery(tmp_path, tmp_path / "photos", render=None, **keys), [], "gallery"))
    assert any(line in one for one in said.lines), said.lines


def damaged(data: bytes) -> bytes:
    """All but the last codes, closed by an end mark."""
    header = read_plain_jpeg_header(data)
    assert header is not None
    return data[: header.coded_from + (len(data) - header.coded_from) * 19 // 20] + b"\xff\xd9"


def test_a_damaged_file_does_not_stand_for_a_smaller_whole_one(tmp_path: Path) -> None:
    for name, size in {"large.jpg": (640, 480), "small.jpg": (320, 240)}.items():
        save_photo(tmp_path / "photos" / name, 1, size=size)
    large = tmp_path / "photos" / "large.jpg"
    large.write_bytes(damaged(large.read_bytes()))
    result = build(define_gallery(tmp_path, tmp_path / "photos"), workers=1)
    tables = set_files.read_set(result.path).tables
    assert tables.images["file_name"].tolist() == ["small.jpg"]
    row = tables.ledger.set_index("item").loc["large.jpg"]
    assert row[["stage", "bucket", "reason"]].tolist() == ["scan", "quarantined", "damaged"]
    assert row["detail"] == "Corrupt JPEG data: premature end of data segment"
