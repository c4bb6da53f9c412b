"""How well `filter.max_flatness` tells screenshots from photos.

    python benchmarks/screens.py

Photos: those of ../shared/data (flowers, COCO, cameras). Screens: pages drawn by Chromium, of a desktop and of a phone:
texts of docs/, and a page as of an album, in which photos take a part of the screen. The share of each that is
rejected at thresholds, with a 95% interval (Wilson), and the names of the photos that are, for a
person to look at: the folders hold drawn images, too.
"""

from __future__ import annotations

import html
import random
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright
from rich.console import Console
from rich.table import Table

from querytruth.backends.images.image_reading import read_image

ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared" / "data"
THRESHOLDS = (0.40, 0.45, 0.50)
SIZES = {"desktop": (1280, 800), "phone": (390, 844)}
ALBUMS = (0.3, 0.6)  # shares of the screen that photos take
_STYLE = "body{margin:16px;font:15px sans-serif} header{background:#fff;padding:8px} img{display:block;width:100%}"


def wilson_interval(hits: int, count: int) -> tuple[float, float]:
    """Return the 95% interval of a share (Wilson, 1927)."""
    z, share = 1.96, hits / count
    middle, spread = share + z * z / (2 * count), z * (share * (1 - share) / count + z * z / (4 * count**2)) ** 0.5
    return max(0.0, (middle - spread) / (1 + z * z / count)), min(1.0, (middle + spread) / (1 + z * z / count))


def read_scores(paths: list[Path]) -> dict[Path, float]:
    """Return the flatness of each file that is a whole image."""
    scores = {path: read_image(path).flatness for path in paths}
    return {path: float(score) for path, score in scores.items() if score is not None}


def list_photos() -> list[Path]:
    """Return the photos at hand, sorted."""
    folders = ("photos_flowers", "coco_tiny", "photos_exif")
    return sorted(
        path for one in folders for path in (DATA / one).rglob("*") if path.suffix.lower() in (".jpg", ".jpeg")
    )


def write_page(kind: str, number: int, photos: list[Path], size: tuple[int, int]) -> str:
    """Return the HTML of a screen: a page of text, or an album with a photo over a share of the screen's height."""
    texts = sorted((ROOT / "docs").glob("*.md"))
    words = html.escape(texts[number % len(texts)].read_text("utf-8")[:4000])
    if kind == "text":
        return f"<style>{_STYLE}</style><p>{words}</p>"
    share = float(kind.rpartition(" ")[2])
    photo = random.Random(number).choice(photos).as_uri()
    height = round(share * size[1])
    return (
        f"<style>{_STYLE} img{{height:{height}px;object-fit:cover}}</style><header>9:41 · Album</header>"
        f"<img src='{photo}'><p>{words[:300]}</p>"
    )


def draw_screens(folder: Path, photos: list[Path], count: int = 15) -> dict[str, list[Path]]:
    """Draw so many screens of each kind and size, as PNG."""
    drawn: dict[str, list[Path]] = {}
    with sync_playwright() as tool:
        browser = tool.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"])
        for name, size in SIZES.items():
            page = browser.new_page(viewport={"width": size[0], "height": size[1]})
            for kind in ("text", *(f"photo over {share}" for share in ALBUMS)):
                for number in range(count):
                    source, path = folder / "page.html", folder / f"{name}-{kind}-{number}.png"
                    source.write_text(write_page(kind, number, photos, size), "utf-8")
                    page.goto(source.as_uri())
                    page.screenshot(path=path)
                    drawn.setdefault(f"{name}, {kind}", []).append(path)
        browser.close()
    return drawn


def main() -> None:
    console, photos = Console(width=120), list_photos()
    if not photos:
        console.print("skipped: needs ../shared/data")
        return
    table = Table("images", "", *(f"rejected at {one}" for one in THRESHOLDS))
    with tempfile.TemporaryDirectory() as folder:
        groups = {"photos": photos, **draw_screens(Path(folder), photos)}
        for name, paths in groups.items():
            scores = read_scores(paths)
            cells = []
            for threshold in THRESHOLDS:
                hits = sum(score > threshold for score in scores.values())
                low, high = wilson_interval(hits, len(scores))
                cells.append(f"{hits / len(scores):.1%} ({low:.1%} to {high:.1%})")
            table.add_row(name, str(len(scores)), *cells)
            if name == "photos":  # some files are drawn ones: whoever reads the figure should look
                rejected = [str(path.relative_to(DATA)) for path, score in scores.items() if score > THRESHOLDS[1]]
    console.print(table)
    console.print(f"of the photos, at {THRESHOLDS[1]}:", *rejected, sep="\n")


if __name__ == "__main__":
    main()
