"""Any bytes as any input file of any command: it ends, with an exit code and at most one line of an error."""

import json
import resource
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import openpyxl
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from querytruth.errors import UserError
from tests.command_runner import Ended, invoke
from tests.images import draw_scene
from tests.small_sets import publish_small_set, small_tables

TABLE = "image,text\na.png,a dog on a hill\nb.png,a boat\n"
COCO = json.dumps(
    {
        "images": [{"id": 1, "file_name": "a.png", "width": 320, "height": 240}],
        "annotations": [
            {"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 300, 230], "area": 69000, "iscrowd": 0}
        ],
        "categories": [{"id": 1, "name": "dog"}],
    }
)
SMALL = small_tables(graded=False)
RUN = "".join(f"{query} Q0 {SMALL.images['image_id'][0]} 1 0.5 x\n" for query in SMALL.queries["query_id"])
DEFINITION = "name: fuzzed\nkind: gallery\nimages: photos\nselect: {count: 1}\n"
# By the suffix of the file: a sound one, and the commands that read it as FILE.
PAIRS = "import pairs FILE new/mine --images photos --lose-at-most 1"
COMMANDS = {
    "csv": (TABLE, [PAIRS, "build queries --set queries=FILE --set images=photos --set out=new --plan",
                    "evaluate small --out sets --run FILE", "review import-csv small FILE --out sets --dry-run",
                    "labels accept FILE coco80 --to new/labels",
                    "review import-qrels small FILE --out sets --dry-run"]),
    "tsv": (TABLE.replace(",", "\t"), [PAIRS]),
    "jsonl": ('{"image": "a.png", "text": "a dog"}\n', [PAIRS, "evaluate small --out sets --run FILE"]),
    "json": (COCO, ["build precision --set annotations=FILE --set images=photos --set out=new "
                    "--set searchable.min_images=1",
                    "evaluate small --out sets --run FILE"]),
    "txt": ("a dog\na boat\n", ["build queries --set queries=FILE --set images=photos --set out=new --plan"]),
    "trec": (RUN, ["evaluate small --out sets --run FILE", "review import-qrels small FILE --out sets --dry-run"]),
    "yaml": (DEFINITION, ["build gallery FILE --plan", "build recall FILE --plan", "build generated FILE --plan",
                          "evaluate small --out sets --system FILE", "train FILE", "doctor FILE"]),
    "parquet": (None, [PAIRS, "evaluate small --out sets --run FILE"]),
    "xlsx": (None, [PAIRS, "build queries --set queries=FILE --set images=photos --set out=new --plan"]),
    "png": (None, ["build gallery --set images=photos --set name=g --set out=new"]),
}  # fmt: skip


EDITS = st.tuples(st.integers(0, 1 << 12), st.binary(max_size=24), st.integers(0, 40))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("any")
    (folder / "photos").mkdir()
    for number, name in enumerate("ab"):
        draw_scene(number).save(folder / "photos" / f"{name}.png")
    publish_small_set(folder, SMALL)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield folder


def make_sound(suffix: str, place: Path) -> bytes:
    text = COMMANDS[suffix][0]
    path = place / f"sound.{suffix}"
    frame = pd.DataFrame({"image": ["a.png", "b.png"], "text": ["a dog", "a boat"]})
    if text is not None:
        return text.encode()
    if suffix == "parquet":
        frame.to_parquet(path)
    elif suffix == "xlsx":
        book = openpyxl.Workbook()
        for row in [frame.columns.tolist(), *frame.to_numpy().tolist()]:
            book.active.append(row)  # type: ignore[union-attr]
        book.save(path)
    else:
        draw_scene(2).save(path)
    return path.read_bytes()


def change(data: bytes, edits: list[tuple[int, bytes, int]]) -> bytes:
    """The bytes with each edit: what stands at a place gives way to other bytes, as many or fewer than it was."""
    for at, new, cut in edits:
        at %= len(data) + 1
        data = data[:at] + new + data[at + cut :]
    return data


def end_of(command: str, file: Path) -> Ended:
    """Run the command within 60 s and 1.5 GB, of this process and of each worker."""
    began = time.monotonic()
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    ended = invoke(*[str(file) if word == "FILE" else word.replace("FILE", str(file)) for word in command.split()])
    own = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    assert max(int(own.split()[1]), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) < 1.5e6  # kB
    assert time.monotonic() - began < 60
    return ended


@pytest.mark.thorough
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    suffix=st.sampled_from(sorted(COMMANDS)),
    number=st.integers(0, 5),
    edits=st.lists(
        st.tuples(st.integers(0, 1 << 12), st.binary(max_size=24), st.integers(0, 40)), min_size=1, max_size=4
    ),
    rubbish=st.none() | st.binary(max_size=200),
)
def test_any_bytes_end_in_an_exit_code_and_one_line(
    place: Path, suffix: str, number: int, edits: list[tuple[int, bytes, int]], rubbish: bytes | None
) -> None:
    commands = COMMANDS[suffix][1]
    data = change(make_sound(suffix, place), edits) if rubbish is None else rubbish
    file = place / ("photos/c.png" if suffix == "png" else f"f{zlib.crc32(data):x}.{suffix}")
    file.write_bytes(data)
    ended = end_of(commands[number % len(commands)], file)
    assert ended.exit_code in (0, 1, 2), ended.stderr
    assert ended.exception is None or isinstance(ended.exception, UserError), repr(ended.exception)
    assert "Traceback" not in ended.output and "\n" not in str(ended.exception or "")


@pytest.mark.thorough
@pytest.mark.parametrize("suffix", sorted(COMMANDS))
def test_a_sound_file_is_read(place: Path, suffix: str) -> None:
    file = place / ("photos/c.png" if suffix == "png" else f"sound-{suffix}.{suffix}")
    file.write_bytes(make_sound(suffix, place))
    assert end_of(COMMANDS[suffix][1][0], file).exit_code == 0
