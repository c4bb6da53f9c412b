"""Images that are drawn for benchmarks of near-duplicates: series whose images differ in what they say, or in colour.

Every series holds different images that a perceptual hash hardly tells apart: cards of one template, slides, pages of
text, chats, products in several colours. None of them may fall into one group; a re-encoded copy of each must.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import product
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

Colour = tuple[int, int, int]
CJK = Path("/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc")
WORDS = [
    *("harbour", "lantern", "copper", "meadow", "winter", "signal", "orange", "bridge", "paper", "engine", "velvet"),
    *("morning", "river", "saddle", "pepper", "window", "garden", "thunder", "marble", "ticket", "camera", "forest"),
    *("button", "island", "ribbon", "quartz", "copperplate"),
]
CHARACTERS = "天地玄黄宇宙洪荒日月盈昃辰宿列张寒来暑往秋收冬藏闰余成岁律吕调阳云腾致雨露结为霜金生丽水玉出昆冈"
CITIES = (
    "London",
    "Tokyo",
    "Nairobi",
    "Lima",
    "Berlin",
    "Sydney",
    "Cairo",
    "Toronto",
    "上海",
    "Oslo",
    "Delhi",
    "Quito",
)
COLOURS: dict[str, Colour] = {
    "red": (200, 40, 45),
    "blue": (45, 80, 200),
    "green": (40, 140, 60),
    "yellow": (225, 195, 40),
    "purple": (130, 60, 160),
    "orange": (235, 130, 30),
}


@lru_cache(maxsize=64)
def font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.truetype(str(CJK), size) if CJK.exists() else ImageFont.load_default(size)


def sentence(rng: np.random.Generator, words: int, chinese: bool = False) -> str:
    if chinese and CJK.exists():  # other fonts draw the same box for all characters
        return "".join(rng.choice(list(CHARACTERS), 2 * words))
    return " ".join(rng.choice(WORDS, words))


# ---- what differs in its text


def clock_cards() -> Iterator[Image.Image]:
    """A dark card: the same disc and lines, another city and time."""
    for number, city in enumerate(CITIES):
        image = Image.new("RGB", (640, 400), (24, 30, 48))
        draw = ImageDraw.Draw(image)
        draw.rounded_rectangle((24, 24, 616, 376), 28, fill=(38, 48, 74), outline=(90, 110, 160), width=3)
        draw.ellipse((60, 110, 240, 290), outline=(230, 235, 245), width=8)
        draw.line((150, 200, 150, 140), fill=(230, 235, 245), width=7)
        draw.text((280, 110), city, font=font(64), fill=(240, 243, 250))
        draw.text((280, 210), f"{(7 * number + 3) % 24:02}:{(11 * number) % 60:02}", font=font(72), fill=(250, 205, 90))
        yield image


def quote_cards() -> Iterator[Image.Image]:
    """One gradient, another sentence in the middle."""
    rng = np.random.default_rng(1)
    for number in range(12):
        ground = np.linspace((250, 200, 170), (160, 120, 200), 600)[:, None].repeat(600, axis=1).astype(np.uint8)
        image = Image.fromarray(ground)
        draw = ImageDraw.Draw(image)
        for line in range(4):
            text = sentence(rng, 3, number % 2 == 1)
            draw.text((300, 170 + 75 * line), text, font=font(42), fill=(60, 30, 70), anchor="mm")
        yield image


def slides() -> Iterator[Image.Image]:
    """One template: title bar, footer, five bullets of other words."""
    rng = np.random.default_rng(2)
    for number in range(12):
        image = Image.new("RGB", (960, 540), "white")
        draw = ImageDraw.Draw(image)
        draw.rectangle((0, 0, 960, 90), fill=(20, 70, 130))
        draw.rectangle((0, 505, 960, 540), fill=(225, 230, 238))
        draw.text((40, 22), sentence(rng, 3, number % 3 == 2), font=font(40), fill="white")
        for line in range(5):
            draw.ellipse((52, 136 + 68 * line, 66, 150 + 68 * line), fill=(20, 70, 130))
            draw.text((86, 122 + 68 * line), sentence(rng, 4, number % 3 == 2), font=font(30), fill=(40, 40, 40))
        yield image


def scans() -> Iterator[Image.Image]:
    """Pages of text as a scanner gives them: grey paper, noise, soft letters."""
    rng = np.random.default_rng(3)
    for number in range(12):
        image = Image.new("L", (1240, 1754), 236)
        draw = ImageDraw.Draw(image)
        draw.text((620, 130), sentence(rng, 3, number % 3 == 1), font=font(44), fill=40, anchor="mm")
        for line in range(38):
            text = sentence(rng, 9 if line % 9 != 8 else 4, number % 3 == 1)
            while draw.textlength(text, font=font(24)) > 1000:
                text = text[:-1]
            draw.text((120, 220 + 38 * line), text, font=font(24), fill=55)
        noise = rng.normal(0, 5, (1754, 1240))
        page = np.asarray(image.filter(ImageFilter.GaussianBlur(0.9)), dtype=float) + noise
        yield Image.fromarray(page.clip(0, 255).astype(np.uint8)).convert("RGB")


def chats() -> Iterator[Image.Image]:
    """Screenshots of a phone: the same bubbles at the same places, other messages."""
    rng = np.random.default_rng(4)
    for number in range(12):
        image = Image.new("RGB", (540, 1080), (236, 229, 221))
        draw = ImageDraw.Draw(image)
        draw.rectangle((0, 0, 540, 96), fill=(18, 110, 95))
        draw.text((90, 30), "Group", font=font(30), fill="white")
        draw.ellipse((20, 22, 74, 76), fill=(200, 220, 215))
        for line in range(9):
            left = 20 if line % 3 else 170
            top = 120 + 100 * line
            draw.rounded_rectangle((left, top, left + 350, top + 78), 14, fill="white" if line % 3 else (220, 248, 198))
            for row in range(2):
                text = sentence(rng, 3, number % 2 == 1)
                while draw.textlength(text, font=font(22)) > 320:
                    text = text[:-1]
                draw.text((left + 14, top + 8 + 33 * row), text, font=font(22), fill=(20, 20, 20))
        yield image


def forms() -> Iterator[Image.Image]:
    """A form with the same printed parts, filled in by other people."""
    rng = np.random.default_rng(5)
    for number in range(12):
        image = Image.new("RGB", (900, 1200), (252, 252, 250))
        draw = ImageDraw.Draw(image)
        draw.text((60, 50), "APPLICATION FOR A PERMIT", font=font(40), fill=(10, 10, 60))
        for line in range(12):
            top = 160 + 82 * line
            draw.text(
                (60, top), f"{line + 1}. {WORDS[line]} of the {WORDS[line + 9]}", font=font(22), fill=(90, 90, 90)
            )
            draw.rectangle((380, top - 8, 840, top + 44), outline=(120, 120, 120), width=2)
            text = sentence(rng, 2, number % 3 == 0)
            draw.text((396, top - 2), text, font=font(28), fill=(20, 40, 140))
        yield image


# ---- what differs in its colour


def with_luma(colour: Colour, luma: float) -> Colour:
    """The colour with this luma, as far as it exists."""
    own = 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2]
    red, green, blue = (round(min(255, max(0, value + luma - own))) for value in colour)
    return red, green, blue


def shirt(colour: Colour, ground: Colour = (240, 240, 238)) -> Image.Image:
    rng = np.random.default_rng(6)
    image = Image.new("RGB", (480, 480), ground)
    draw = ImageDraw.Draw(image)
    body = [(150, 90), (205, 70), (240, 95), (275, 70), (330, 90), (420, 190), (365, 235), (335, 195), (335, 420)]
    draw.polygon([*body, (145, 420), (145, 195), (115, 235), (60, 190)], fill=colour)
    for fold in range(7):
        left = 165 + 25 * fold
        draw.line((left, 210 + 9 * fold, left - 14, 405), fill=tuple(int(0.8 * value) for value in colour), width=4)
    noise = rng.normal(0, 3, (480, 480, 1))
    return Image.fromarray((np.asarray(image) + noise).clip(0, 255).astype(np.uint8))


def shirts() -> Iterator[Image.Image]:
    for colour in COLOURS.values():
        yield shirt(colour)


def shirts_of_one_luma() -> Iterator[Image.Image]:
    for colour in COLOURS.values():
        yield shirt(with_luma(colour, 120))


def pale_shirts() -> Iterator[Image.Image]:
    for colour in COLOURS.values():
        red, green, blue = (round(0.72 * 235 + 0.28 * value) for value in colour)
        yield shirt((red, green, blue))


def buttons() -> Iterator[Image.Image]:
    """A grey device on which a small lamp alone has another colour."""
    for colour in COLOURS.values():
        image = Image.new("RGB", (600, 450), (232, 232, 230))
        draw = ImageDraw.Draw(image)
        draw.rounded_rectangle((110, 90, 490, 370), 40, fill=(120, 122, 126), outline=(70, 72, 76), width=6)
        draw.rectangle((160, 130, 440, 230), fill=(30, 36, 40))
        for number in range(6):
            draw.ellipse((160 + 48 * number, 260, 190 + 48 * number, 290), fill=(190, 190, 188))
        draw.ellipse((280, 310, 320, 350), fill=with_luma(colour, 105))
        yield image


def tiles() -> Iterator[Image.Image]:
    """A texture that fills the image, in one colour each."""
    rng = np.random.default_rng(8)
    relief = np.asarray(Image.fromarray(rng.integers(0, 255, (24, 24), dtype=np.uint8)).resize((400, 400), 3), float)
    for colour in COLOURS.values():
        luma = with_luma(colour, 110)
        yield Image.fromarray((np.array(luma) * (0.6 + 0.6 * relief[..., None] / 255)).clip(0, 255).astype(np.uint8))


def icons() -> Iterator[Image.Image]:
    """A flat sign in two colours."""
    for one, other in product(("red", "green", "blue"), ("yellow", "purple")):
        image = Image.new("RGB", (256, 256), "white")
        draw = ImageDraw.Draw(image)
        draw.ellipse((20, 20, 236, 236), fill=COLOURS[one])
        draw.polygon([(90, 70), (190, 128), (90, 186)], fill=COLOURS[other])
        yield image


SERIES: dict[str, Callable[[], Iterator[Image.Image]]] = {
    "cards: world clock": clock_cards,
    "cards: quotes": quote_cards,
    "slides": slides,
    "scans of pages": scans,
    "chats": chats,
    "forms": forms,
    "shirts": shirts,
    "shirts of one luma": shirts_of_one_luma,
    "pale shirts": pale_shirts,
    "a lamp on a device": buttons,
    "textures": tiles,
    "signs of two colours": icons,
}
