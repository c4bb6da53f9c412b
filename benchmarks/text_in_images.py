"""How much of the text in photos `labels facts --texts` reads, how much is wrong, and what its confidence is worth.

    pip install 'querytruth[ocr]'
    python benchmarks/text_in_images.py PHOTOS --without PHOTOS_WITHOUT_TEXT [--font NotoSansCJK-Bold.ttc]

Draws an English and a Chinese text on each photo, in black or white, whichever differs more from what is behind it, at
five sizes and turned by 0 to 20 degrees; the seed is fixed. A drawn text is read where a line equals it, but for case
and blanks. A reading is false where the photo itself, undrawn, has no such line and it is none of the drawn texts.
"""

import argparse
import random
import tempfile
from contextlib import nullcontext
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from builders.album.fact_table import CONFIDENT
from querytruth.backends.images.rendering import PixelsJob, run_pixels_job
from querytruth.backends.images.text_reading import TextLine, read_texts

SIZES = (12, 16, 24, 32, 48)  # of the font in pixels, on photos whose longer side has 640
CUTS = (0.5, 0.6, 0.7, 0.8, 0.85, CONFIDENT, 0.95, 0.98)
TURNS = ((0, 5), (5, 10), (10, 15), (15, 20))
ENGLISH = [
    "EXIT",
    "Open",
    "Bakery",
    "No Parking",
    "Platform 9",
    "Museum",
    "Happy Birthday",
    "Main Street",
    "Order 4711",
]
CHINESE = [
    "出口",
    "营业中",
    "订单号",
    "生日快乐",
    "人民公园",
    "禁止停车",
    "西湖",
    "欢迎光临",
    "火车站",
    "小心台阶",
    "博物馆",
]
TEXTS = {"en": [*ENGLISH, "Welcome home", "SALE 50%"], "zh": CHINESE}
Drawn = list[tuple[str, str, int, float]]  # text, language, size, degrees


def draw_texts(photo: Image.Image, size: int, draw: random.Random, font: str) -> tuple[Image.Image, Drawn]:
    """A text of each language, one in the upper and one in the lower half."""
    drawn = Drawn()
    for half, (language, texts) in enumerate(TEXTS.items()):
        text, turn = draw.choice(texts), draw.uniform(0, 20)
        face = ImageFont.truetype(font, size, index=2)  # simplified Chinese
        left, top, right, bottom = face.getbbox(text)
        mask = Image.new("L", (int(right - left) + 8, int(bottom - top) + 8))
        ImageDraw.Draw(mask).text((4 - left, 4 - top), text, 255, font=face)
        mask = mask.rotate(turn * draw.choice((-1, 1)), Image.Resampling.BICUBIC, expand=True)
        room = photo.width - mask.width, photo.height // 2 - mask.height
        if min(room) < 0:
            continue
        at = draw.randint(0, room[0]), draw.randint(0, room[1]) + half * photo.height // 2
        behind = np.asarray(photo.convert("L").crop((*at, at[0] + mask.width, at[1] + mask.height))).mean()
        photo.paste("white" if behind < 128 else "black", at, mask)
        drawn.append((text, language, size, turn))
    return photo, drawn


def fold(text: str) -> str:
    return "".join(text.casefold().split())


def read(paths: list[Path], workers: int) -> list[list[TextLine]]:
    found = read_texts([str(path) for path in paths], workers, nullcontext(lambda _count: None))
    return [[] if isinstance(one, str) else one for one in found]


def share(hits: list[bool]) -> str:
    return f"{sum(hits) / len(hits):.2f}" if hits else "-"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path)
    parser.add_argument("--without", type=Path, required=True)
    parser.add_argument("--font", default="/usr/share/fonts/opentype/noto/NotoSansCJK-Bold.ttc")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    photos, plain = (sorted(folder.rglob("*.jp*g")) for folder in (given.photos, given.without))
    own = [{fold(text) for text, _, _ in lines} for lines in read(photos, given.workers)]
    draw, hits, readings = random.Random(1), [], []
    with tempfile.TemporaryDirectory() as scratch:
        for size in SIZES:
            truths, paths = [], []
            for number, path in enumerate(photos):
                image = Image.fromarray(run_pixels_job(PixelsJob(str(path), 640, None)))
                image, drawn = draw_texts(image, size, draw, given.font)
                paths.append(Path(scratch) / f"{number}.png")
                image.save(paths[-1])
                truths.append(drawn)
            for lines, drawn, known in zip(read(paths, given.workers), truths, own, strict=True):
                texts = {fold(text) for text, *_ in drawn}
                best = {fold(text): sure for text, _, sure in reversed(lines)}
                hits += [(*one, best.get(fold(one[0]), 0.0)) for one in drawn]
                readings += [(sure, fold(text) in texts) for text, _, sure in lines if fold(text) not in known]
    without = read(plain, given.workers)
    print(f"{len(photos)} photos, {len(hits)} drawn texts; {len(plain)} photos without text")
    for cut in CUTS:
        alike = [right for sure, right in readings if sure >= cut]
        asked = sum(any(sure >= cut for _, _, sure in lines) for lines in without)
        print(f"| {cut} | {share([hit[-1] >= cut for hit in hits])} | {share(alike)} of {len(alike)} | {asked} |")
    for language in TEXTS:
        for size in SIZES:
            of = [hit for hit in hits if hit[1:3] == (language, size)]
            parts = [of, *([hit for hit in of if low <= hit[3] < high] for low, high in TURNS)]
            shares = [share([hit[-1] >= CONFIDENT for hit in part]) for part in parts]
            print(f"| {language} {size} px | {' | '.join(shares)} |")
    for path, lines in zip(plain, without, strict=True):
        if lines:
            print(path.name, lines)


if __name__ == "__main__":
    main()
