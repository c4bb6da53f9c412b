"""Sources of images: what each lists, what it refuses and why, and where an item lies."""

import gc
import os
import socket
import subprocess
import zipfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from querytruth.backends.images.image_folder import ImageFolder
from querytruth.backends.images.image_reading import read_image
from querytruth.backends.images.image_sources import FileState, RefusedItem, open_source, read_file_state
from querytruth.errors import UserError


def files(root: Path, *names: str | bytes) -> Path:
    for name in names:
        path = root / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    return root


def items(images: Path | str, **options: Any) -> list[str]:
    return open_source(str(images), **options).list_items().items.to_pylist()


def refused(images: Path | str) -> list[tuple[str, str]]:
    rows = open_source(str(images)).list_items().refused
    return list(zip(rows["item"].to_pylist(), rows["reason"].to_pylist(), strict=True))


def test_a_folder_lists_every_file_in_order_whatever_the_file_system_says(tmp_path: Path) -> None:
    files(tmp_path, "b.jpg", "a/z.jpg", "a-b.jpg", "a.jpg", "a/b/c.jpg", "B.jpg", "notes.txt", ".hidden.jpg")
    expected = [".hidden.jpg", "B.jpg", "a-b.jpg", "a.jpg", "a/b/c.jpg", "a/z.jpg", "b.jpg", "notes.txt"]
    assert items(tmp_path) == expected
    assert items(tmp_path / "a" / "b" / ".." / "b") == ["c.jpg"]
    assert items(f"file://{tmp_path}/a/b") == ["c.jpg"]


def test_hostile_names_survive(tmp_path: Path) -> None:
    names = [b"new\nline.jpg", "‮gpj.a".encode(), b"caf\xe9.jpg", b"n" * 255, b"..jpg", b"...", b" ", b"bytes:x", b"-rf"]
    source = open_source(str(files(tmp_path, *names)))
    listed = source.list_items()
    assert len(listed.items) == len(names)
    assert not listed.refused.num_rows
    locations = source.locate_all(listed.items.to_pylist())
    assert sorted(os.fsencode(at).rpartition(b"/")[2] for at in locations if isinstance(at, str)) == sorted(names)
    assert all(isinstance(read_file_state(at), FileState) for at in locations if isinstance(at, str))


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    """A file 1,100 folders deep; removed by other means than shutil's, which recurse."""
    handle = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1100):
        os.mkdir("d", dir_fd=handle)
        inner = os.open("d", os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = inner
    os.close(os.open("a.jpg", os.O_CREAT, dir_fd=handle))
    os.close(handle)
    yield tmp_path
    subprocess.run(["rm", "-rf", tmp_path / "d"], check=True)


def test_a_tree_deeper_than_python_can_recurse(deep: Path) -> None:
    assert items(deep) == ["d/" * 1100 + "a.jpg"]
    location = open_source(str(deep)).locate("d/" * 1100 + "a.jpg")
    assert isinstance(location, str)
    assert isinstance(read_file_state(location), FileState)


def test_what_is_no_file_is_refused_and_never_opened(tmp_path: Path) -> None:
    files(tmp_path, "a.jpg")
    os.mkfifo(tmp_path / "pipe.jpg")
    with socket.socket(socket.AF_UNIX) as end:
        end.bind(str(tmp_path / "s.jpg"))
    assert items(tmp_path) == ["a.jpg"]
    assert refused(tmp_path) == [("pipe.jpg", "not_a_regular_file"), ("s.jpg", "not_a_regular_file")]
    source = open_source(str(tmp_path))
    assert source.locate("pipe.jpg") == RefusedItem("not_a_regular_file")
    assert read_file_state(str(tmp_path / "pipe.jpg")) == RefusedItem("not_a_regular_file")


def test_links_lead_nowhere_but_to_files_inside(tmp_path: Path) -> None:
    root = files(tmp_path / "root", "real/a.jpg")
    files(tmp_path, "secret.jpg", "other/b.jpg")
    links = {
        "inside.jpg": root / "real" / "a.jpg",
        "outside.jpg": tmp_path / "secret.jpg",
        "folder": root / "real",
        "loop": root,
        "away": tmp_path / "other",
        "dangling.jpg": root / "gone.jpg",
        "self.jpg": root / "self.jpg",
        "device.jpg": Path("/dev/null"),
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    assert items(root) == ["inside.jpg", "real/a.jpg"]
    assert open_source(str(root)).locate("inside.jpg") == str(root / "real" / "a.jpg")
    assert dict(refused(root)) == {
        "outside.jpg": "link_out_of_folder",
        "folder": "link_to_folder",
        "loop": "link_to_folder",
        "away": "link_to_folder",
        "dangling.jpg": "missing",
        "self.jpg": "missing",
        "device.jpg": "link_out_of_folder",
    }
    assert items(tmp_path / "root" / "loop") == ["inside.jpg", "real/a.jpg"], "the source itself may be a link"


def test_what_changes_after_listing_is_refused_when_it_is_located(tmp_path: Path) -> None:
    root = files(tmp_path / "root", "a.jpg", "b/c.jpg", "d.jpg")
    files(tmp_path, "secret.jpg", "other/c.jpg")
    source = open_source(str(root))
    assert source.list_items().items.to_pylist() == ["a.jpg", "b/c.jpg", "d.jpg"]
    (root / "a.jpg").unlink()
    (root / "a.jpg").symlink_to(tmp_path / "secret.jpg")
    (root / "b").rename(tmp_path / "was_b")
    (root / "b").symlink_to(tmp_path / "other")
    (root / "d.jpg").unlink()
    reasons = [at.reason for at in source.locate_all(["a.jpg", "b/c.jpg", "d.jpg"]) if isinstance(at, RefusedItem)]
    assert reasons == ["link_out_of_folder", "link_out_of_folder", "missing"]


def test_a_folder_that_cannot_be_read_costs_itself_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files(tmp_path, "a.jpg", "closed/b.jpg", "open/c.jpg")
    real = os.scandir

    def scandir(path: bytes) -> Any:
        if path.endswith(b"closed/"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert items(tmp_path) == ["a.jpg", "open/c.jpg"]
    assert refused(tmp_path) == [("closed/", "unreadable_folder")]


def test_the_builds_own_output_below_the_source_is_left_out(tmp_path: Path) -> None:
    files(tmp_path, "a.jpg", "sets/pets/v1/images/b.jpg", "sets/pets2/c.jpg", "pets/d.jpg")
    assert items(tmp_path, skip=tmp_path / "sets" / "pets") == ["a.jpg", "pets/d.jpg", "sets/pets2/c.jpg"]
    assert items(tmp_path / "sets", skip=tmp_path) == ["pets/v1/images/b.jpg", "pets2/c.jpg"]
    assert items(tmp_path, skip=tmp_path / "not" / "yet") == items(tmp_path)


def test_a_list_names_files_beside_it_and_anywhere(tmp_path: Path) -> None:
    away = files(tmp_path / "away", "x.jpg")
    root = files(tmp_path / "root", "a.jpg", "b/c.jpg", b"caf\xe9.jpg", " d .jpg")
    lines = b"\xef\xbb\xbf./b/c.jpg\r\n# a comment\n\n   \na.jpg\ncaf\xe9.jpg\n d .jpg\n../away/x.jpg\n"
    lines += b"gone.jpg\nb\na.jpg\nb/../a.jpg\n" + os.fsencode(away) + b"/x.jpg\nhttp://127.0.0.1/a.jpg\n"
    (root / "list.txt").write_bytes(lines + b"x" * 50_000 + b"\nlast.jpg")
    source = open_source(str(root / "list.txt"))
    found = source.list_items().items.to_pylist()
    places = dict(zip(found, source.locate_all(found), strict=True))
    assert places == {
        " d .jpg": str(root / " d .jpg"),
        str(away / "x.jpg"): str(away / "x.jpg"),
        "a.jpg": str(root / "a.jpg"),
        "b": RefusedItem("not_a_regular_file"),
        "b/c.jpg": str(root / "b" / "c.jpg"),
        "bytes:caf%E9.jpg": str(root) + "/caf\udce9.jpg",
        "gone.jpg": RefusedItem("missing", "No such file or directory"),
        "last.jpg": RefusedItem("missing", "No such file or directory"),
    }
    assert refused(root / "list.txt") == [
        ("../away/x.jpg", "not_a_relative_name"),
        ("a.jpg", "listed_twice"),
        ("a.jpg", "listed_twice"),
        ("http://127.0.0.1/a.jpg", "web_address"),
        ("x" * 80 + "…", "not_a_relative_name"),
    ]


def test_a_listed_name_does_not_leave_the_lists_folder_through_a_link(tmp_path: Path) -> None:
    root = files(tmp_path / "root", "in/a.jpg")
    files(tmp_path, "other/b.jpg")
    (root / "link").symlink_to(tmp_path / "other")
    (root / "same").symlink_to(root / "in")
    source = open_source(str(files(root, "list.lst") / "list.lst"))
    assert source.locate("link/b.jpg") == RefusedItem("link_out_of_folder")
    assert source.locate("same/a.jpg") == str(root / "same" / "a.jpg")
    assert source.locate(str(root / "link" / "b.jpg")) == str(root / "link" / "b.jpg"), "an absolute path may"
    assert source.locate(str(root / "link")) == RefusedItem("link_to_folder")


CSV = """licence,path,latitude,longitude,taken_at,note
CC BY 4.0,b.jpg,30.5,-120,2024-05-03T10:12:44+08:00,x
,a.jpg,,,2024-05-03,
CC0,../c.jpg,1,1,,
CC0,,1,1,,
CC0,b.jpg,1,1,,
"""


def test_a_table_carries_what_it_says_of_its_items(tmp_path: Path) -> None:
    (tmp_path / "album.csv").write_text(CSV)
    listing = open_source(str(tmp_path / "album.csv")).list_items()
    assert listing.items.to_pylist() == ["a.jpg", "b.jpg"]
    assert listing.carried.to_pylist() == [
        {"licence": None, "taken_at": "2024-05-03", "latitude": None, "longitude": None},
        {"licence": "CC BY 4.0", "taken_at": "2024-05-03T10:12:44+08:00", "latitude": 30.5, "longitude": -120.0},
    ]
    expected = [("../c.jpg", "not_a_relative_name"), ("album.csv, line 5", "no_path"), ("b.jpg", "listed_twice")]
    assert refused(tmp_path / "album.csv") == expected


def test_a_parquet_table_says_the_same_as_the_csv(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("path,taken_at,latitude,longitude,page_url\nx.jpg,2024-05-03T10:12:44,1.5,2,\n")
    rows = {"path": ["x.jpg"], "taken_at": [datetime(2024, 5, 3, 10, 12, 44)], "latitude": [1.5], "longitude": [2]}  # noqa: DTZ001
    pq.write_table(pa.table(rows | {"page_url": pa.array([None], pa.string())}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"path": pa.array([b"caf\xe9.jpg"])}), tmp_path / "b.parquet")
    csv, parquet = (open_source(str(tmp_path / name)).list_items() for name in ("a.csv", "a.parquet"))
    assert (csv.items, csv.carried) == (parquet.items, parquet.carried)
    assert items(tmp_path / "b.parquet") == ["bytes:caf%E9.jpg"]


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.csv", b"file,width\na.jpg,1\n", "has no column 'path' (it has 'file', 'width')"),
        ("a.csv", b"path,latitude\na.jpg,abc\n", "a.csv, line 2 (list images): latitude 'abc' is not a latitude"),
        ("a.csv", b"path,taken_at\na.jpg,05/03/2024 10:12\n", "is not a time such as 2024-05-31T10:20:30"),
        ("a.csv", b"path\na,b.jpg\n", "a.csv, line 2 (list images): has 2 cells, but the header has 1"),
        ("a.csv", b'path\n"a"b.jpg\n', "a.csv, line 2 (list images): is not valid CSV"),
        ("a.parquet", b"PAR1 rubbish PAR1", "cannot be read"),
        ("a.jpg", b"", "is not a folder, a list or a table (.txt, .lst, .csv, .parquet)"),
        ("a.zip", b"", "Next: unpack it and give the folder"),
    ],
)
def test_a_table_that_is_no_good_says_where(tmp_path: Path, name: str, text: bytes, says: str) -> None:
    (tmp_path / name).write_bytes(text)
    with pytest.raises(UserError) as caught:
        items(tmp_path / name)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("images", ["gone", "gone/list.txt", "memory://gone", "memory://gone/a.csv", "nosuch://a/b"])
def test_a_source_that_is_not_there_is_one_line(images: str) -> None:
    with pytest.raises(UserError, match=r"^\S+ \(list images\): [^\n]+ Next: [^\n]+$"):
        open_source(images)


def test_the_web_is_no_source_and_no_password_is_told() -> None:
    with pytest.raises(UserError, match="is a web address"):
        open_source("http://127.0.0.1:1/album/")
    with pytest.raises(UserError, match=r"^sftp://host/album .*has a password"):
        open_source("sftp://me:secret@host/album")


def test_a_pipe_in_place_of_a_list_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "list.txt")
    with pytest.raises(UserError, match="is not a folder"):
        open_source(str(tmp_path / "list.txt"))


@pytest.fixture
def memory() -> Iterator[Any]:
    fsspec = pytest.importorskip("fsspec")
    filesystem = fsspec.filesystem("memory")
    filesystem.store.clear()  # it is one for the whole process
    yield filesystem
    filesystem.store.clear()
    filesystem.pseudo_dirs[:] = [""]


def test_a_folder_at_a_url(memory: Any) -> None:
    for name in ("album/b.jpg", "album/a/c.jpg", "album/a::b.jpg", "other/x.jpg"):
        memory.pipe(f"/{name}", b"12345")
    source = open_source("memory://album")
    assert source.list_items().items.to_pylist() == ["a/c.jpg", "b.jpg"]
    assert refused("memory://album") == [("a::b.jpg", "not_a_relative_name")]
    assert source.locate("a/c.jpg") == "memory://album/a/c.jpg"
    before = read_file_state("memory://album/a/c.jpg")
    assert isinstance(before, FileState)
    assert (before.size, read_file_state("memory://album/a/c.jpg")) == (5, before)
    memory.pipe("/album/a/c.jpg", b"54321")
    assert read_file_state("memory://album/a/c.jpg") != before
    assert read_file_state("memory://album/gone.jpg") == RefusedItem("missing")
    assert read_file_state("memory://album/a") == RefusedItem("not_a_regular_file")


def test_lists_and_tables_at_a_url_name_what_lies_beside_them(memory: Any) -> None:
    memory.pipe("/album/list.txt", b"a.jpg\n/etc/passwd\nfile:///etc/passwd\nmemory://other/x.jpg\n../b.jpg\n")
    memory.pipe("/album/a.csv", b"path,licence\nb.jpg,CC0\n")
    source = open_source("memory://album/list.txt")
    found = source.list_items().items.to_pylist()
    assert source.locate_all(found) == ["memory://album/a.jpg", "memory://other/x.jpg"]
    assert {reason for _, reason in refused("memory://album/list.txt")} == {"not_a_relative_name"}
    table = open_source("memory://album/a.csv")
    assert table.list_items().carried.to_pylist() == [{"licence": "CC0"}]
    assert table.locate("b.jpg") == "memory://album/b.jpg"


def test_images_in_an_archive(tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    with zipfile.ZipFile(tmp_path / "album.zip", "w") as archive:
        archive.writestr("in/a.jpg", b"12345")
        archive.writestr("in/deep/b.jpg", b"")
    source = open_source(f"zip://in::file://{tmp_path}/album.zip")
    found = source.list_items().items.to_pylist()
    assert found == ["a.jpg", "deep/b.jpg"]
    one, again = (read_file_state(str(source.locate("a.jpg"))) for _ in range(2))
    assert isinstance(one, FileState)
    assert one == again
    assert one.size == 5
    assert one.head


def test_a_files_state_changes_with_size_time_and_first_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    path.write_bytes(b"1" * 5000)
    first = read_file_state(str(path))
    assert isinstance(first, FileState)
    assert first.size == 5000
    stamp = (first.modified or 0, first.modified or 0)
    os.utime(path, ns=(stamp[0], stamp[1] + 1000))
    assert read_file_state(str(path)) == first._replace(modified=stamp[1] + 1000)
    path.write_bytes(b"2" + b"1" * 4999)
    os.utime(path, ns=stamp)
    changed = read_file_state(str(path))
    assert isinstance(changed, FileState)
    assert changed == first._replace(head=changed.head) != first
    path.write_bytes(b"2" + b"1" * 4998 + b"2")
    os.utime(path, ns=stamp)
    assert read_file_state(str(path)) == changed, "beyond the head only size and time tell"
    assert read_file_state(str(tmp_path / "gone")) == RefusedItem("missing", "No such file or directory")


@pytest.mark.thorough
def test_a_hundred_thousand_entries_take_little_more_than_their_names(tmp_path: Path) -> None:
    names = [f"holiday/some folder {n % 97:04}/IMG_{n:08}.jpg" for n in range(100_000)]
    (tmp_path / "list.txt").write_text("\n".join(reversed(names)))
    expected = sorted(names)
    before = pa.total_allocated_bytes()
    gc.collect()
    listing = open_source(str(tmp_path / "list.txt")).list_items()
    assert pa.total_allocated_bytes() - before < 2 * sum(map(len, names))
    assert listing.items.to_pylist() == expected


def test_the_head_is_the_one_that_an_image_is_read_with(tmp_path: Path) -> None:
    Image.effect_noise((200, 200), 90).save(tmp_path / "a.png")
    (tmp_path / "b.txt").write_bytes(b"no image")
    for name in ("a.png", "b.txt"):
        read = read_image(str(tmp_path / name))
        assert read_file_state(str(tmp_path / name)) == FileState(read.size, read.modified, read.head)


def image(path: Path) -> Path:
    path.write_bytes(b"x")
    return path


def test_a_bare_name_is_found_in_a_deeper_folder_if_there_is_just_one(tmp_path: Path) -> None:
    for part in ("train2017", "val2017"):
        (tmp_path / part).mkdir()
    here = image(tmp_path / "val2017" / "x.jpg")
    folder = ImageFolder(tmp_path)
    assert folder.find("x.jpg") == here
    assert folder.find("other/x.jpg") == "image_missing", "another folder's image is another image"
    copy = tmp_path / "train2017" / "x.jpg"
    copy.write_bytes(here.read_bytes())
    assert ImageFolder(tmp_path).find("x.jpg") == copy, "the same bytes in two folders are one image"
    copy.write_bytes(here.read_bytes() + b"another")
    assert ImageFolder(tmp_path).find("x.jpg") == "found_in_several_folders"


@pytest.mark.parametrize(
    "listed",
    ["../secret.jpg", "/etc/passwd", "a/../../secret.jpg", "link.jpg", "gone.jpg", "", "nul\x00.jpg", "x" * 5000],
)
def test_nothing_outside_the_root_is_ever_found(tmp_path: Path, listed: str) -> None:
    root = tmp_path / "root"
    (root / "deep").mkdir(parents=True)
    image(tmp_path / "secret.jpg")
    (root / "link.jpg").symlink_to(tmp_path / "secret.jpg")
    (root / "deep" / "gone.jpg").symlink_to(tmp_path / "secret.jpg")
    assert ImageFolder(root).find(listed) in ("image_missing", "not_a_relative_name")


def test_a_link_to_a_file_inside_is_that_file(tmp_path: Path) -> None:
    here = image(tmp_path / "x.jpg")
    (tmp_path / "link.jpg").symlink_to(here)
    assert ImageFolder(tmp_path).find("link.jpg") == here
