"""A gigabyte of images goes out, and comes in again, in memory that does not grow with them."""

import subprocess
import sys
from pathlib import Path

import pytest

IMAGES = 6_000
LIMIT = 300 << 20  # bytes over what the process holds with the set's tables read; the images are a gigabyte

_EXPORT = """
import hashlib, resource, sys
from pathlib import Path
import numpy as np, pandas as pd
from querytruth.formats import exporters
from querytruth.sets.set_files import StoredSet
from querytruth.sets.benchmark_set import Tables
from PIL import Image
from tests.images import encode_image
from tests.small_sets import make_whole_manifest

folder, name, number = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
image = encode_image(Image.effect_noise((400, 400), 120), "JPEG", quality=95)
(folder / "images").mkdir(exist_ok=True)
(folder / "images" / "a.jpg").write_bytes(image)
ids = sorted(hashlib.sha256(str(n).encode()).hexdigest() for n in range(number))
images = pd.DataFrame({"image_id": ["img_" + i[:20] for i in ids], "path": str(folder.absolute() / "images/a.jpg"),
                       "file_name": ids, "sha256": hashlib.sha256(image).hexdigest(), "width": 400, "height": 400,
                       "licence": None, "latitude": np.nan, "longitude": np.nan})
queries = pd.DataFrame({"query_id": ["q_" + i[:20] for i in ids], "text": ids, "language": "en", "style": "caption",
                        "level": 1})
names = ["query_id", "image_id", "judged_by", "evidence"]
qrels = pd.DataFrame({"query_id": queries["query_id"], "image_id": images["image_id"],
                      "relevance": np.ones(number, dtype=np.int8), "judged_by": "caption", "evidence": None})
counts = {"images": number, "queries": number, "judgments": number, "by_style": {"caption/en": number}}
described = make_whole_manifest(name="big", version=1, kind="recall", title="t", content_digest="c",
                                manifest_digest="m", counts=counts, grades={"1": "right"}, files=[])
stored = StoredSet(folder, Tables(queries, images, qrels.astype(dict.fromkeys(names, "category"))), described)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
exporters.export_set(name, stored, folder / "out")
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10)
"""
_IMPORT = """
import resource, sys
from pathlib import Path
from querytruth.formats import importers
from querytruth.formats.set_images import ImageStore

before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
unpacked = ImageStore(Path(sys.argv[1]) / "unpacked")
said = importers.import_tables(sys.argv[2], Path(sys.argv[1]) / "out", None, unpacked)
assert len(said.images) == int(sys.argv[3]), len(said.images)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10)
"""


def grown(program: str, *arguments: object) -> int:
    """Bytes by which the program's memory grew."""
    root = Path(__file__).parents[3]
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return int(subprocess.run(command, cwd=root, check=True, capture_output=True, text=True, timeout=800).stdout)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["huggingface", "webdataset", "chinese_clip"])
def test_a_gigabyte_of_images_does_not_fill_the_memory(name: str, tmp_path: Path) -> None:
    assert grown(_EXPORT, tmp_path, name, IMAGES) < LIMIT
    assert grown(_IMPORT, tmp_path, name, IMAGES) < LIMIT
