"""The commands of docs/first-hour.md, one after the other, on a small folder of photos."""

import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from PIL import Image, ImageDraw
from pillow_heif import register_heif_opener

from querytruth.sets.decision_log import append_decisions
from querytruth.sets.decision_records import QueryDecision
from querytruth.sets.set_files import find_set, read_set
from tests.cli.conftest import Run
from tests.loopback import unused_url

DOCS = Path(__file__).parents[2] / "docs"
ENGLISH = (DOCS / "first-hour.md").read_text("utf-8")
CHINESE = (DOCS / "zh" / "first-hour.md").read_text("utf-8")


def commands(page: str) -> list[str]:
    """What a page says to type."""
    return re.findall(r"^    \$ (.+)$", page.partition("## 7. ")[0], re.MULTILINE)


def own_query_commands(page: str) -> list[str]:
    """What the walk with own queries says to type."""
    return re.findall(r"^    \$ (.+)$", page.partition("## 7. ")[2], re.MULTILINE)


def test_both_pages_have_the_same_commands_and_the_same_file() -> None:
    assert commands(ENGLISH) == commands(CHINESE) and len(commands(ENGLISH)) == 11
    assert own_query_commands(ENGLISH) == own_query_commands(CHINESE) and len(own_query_commands(ENGLISH)) == 9
    files = [re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) for page in (ENGLISH, CHINESE)]
    assert files[0] == files[1] and len(files[0]) == 1


def draw_photos(folder: Path) -> None:
    """Twelve photos, one of them HEIC, a second copy of one, and one that is broken."""
    register_heif_opener()
    (folder / "backup").mkdir(parents=True)
    for n in range(12):
        image = Image.new("RGB", (400, 300), (n * 20, 255 - n * 20, (n * 67) % 255))
        for part in range(9):
            corner = (part % 3 * 133, part // 3 * 100)
            colour = tuple((n * 53 + part * step) % 256 for step in (91, 37, 149))
            ImageDraw.Draw(image).rectangle((*corner, corner[0] + 110 - n * 3, corner[1] + 60 + n * 3), fill=colour)
        image.save(folder / (f"IMG_{n}.HEIC" if n == 0 else f"photo {n}.jpg"))
    shutil.copy(folder / "photo 5.jpg", folder / "backup")
    (folder / "broken.jpg").write_bytes((folder / "photo 6.jpg").read_bytes()[:900])


@pytest.mark.slow
def test_the_walk_of_the_page_works_as_typed(run: Run, tmp_path: Path) -> None:
    draw_photos(tmp_path / "photos")
    urls = {f"http://127.0.0.1:{port}": unused_url() for port in (8001, 8002)}
    ports = [url.rpartition(":")[2] for url in urls.values()]
    server = [sys.executable, "-m", "querytruth", "demo-servers", "photos"]
    options = ["--captions", ports[0], "--search", ports[1]]
    process = subprocess.Popen([*server, *options], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None and process.stdout.readline().startswith("13 images")
        time.sleep(0.5)
        page = ENGLISH
        for written, used in urls.items():
            page = page.replace(written, used)
        (file,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
        (tmp_path / "my-search.yaml").write_text(file)
        printed = {}
        for command in commands(page):
            if command == "querytruth review photos":  # a person at the page drops a query
                stored = read_set(find_set("photos", tmp_path / "datasets"))
                query = stored.tables.queries.iloc[0]
                dropped = QueryDecision(query["query_id"], query["text"], "drop", reviewer="lin", at="2026-01-01")
                append_decisions(stored.path.parent, [dropped])
                continue
            printed[command] = run(*shlex.split(command)[1:])[0]
            if command.startswith("querytruth init"):  # without a model: texts alike by their letters
                definition = tmp_path / "recall.yaml"
                text = definition.read_text().replace("sentence-transformers/all-MiniLM-L6-v2", "char_ngrams")
                definition.write_text(text)
    finally:
        process.kill()
        process.communicate()
    plan, evaluated = (printed[one] for one in printed if "--plan" in one or " evaluate " in one)
    assert "12 images, 12 captions" in plan and "exact duplicate" in plan and "cannot be decoded" in plan
    assert "photos/v2" in evaluated and "my-search" in evaluated
    assert "published in" in printed["querytruth apply photos"] and (tmp_path / "search.html").is_file()
    assert "intact" in printed["querytruth verify photos"]
