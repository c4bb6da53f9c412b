"""What people do to photos before they share them again."""

from collections.abc import Callable

from PIL import Image, ImageDraw, ImageFilter

Edit = Callable[[Image.Image], Image.Image]


def framed(share: float, colour: str) -> Edit:
    def edit(image: Image.Image) -> Image.Image:
        width = max(1, round(max(image.size) * share))
        out = Image.new("RGB", (image.width + 2 * width, image.height + 2 * width), colour)
        out.paste(image, (width, width))
        return out

    return edit


def letterboxed(ratio: float, colour: str | None) -> Edit:
    """Bars of a colour, or (None) of the photo itself, enlarged and blurred."""

    def edit(image: Image.Image) -> Image.Image:
        width, height = image.size
        wide = width / height < ratio
        size = (round(height * ratio), height) if wide else (width, round(width / ratio))
        if colour is None:
            scale = max(size[0] / width, size[1] / height)
            out = image.resize((round(width * scale), round(height * scale)))
            left, top = (out.width - size[0]) // 2, (out.height - size[1]) // 2
            out = out.crop((left, top, left + size[0], top + size[1])).filter(ImageFilter.GaussianBlur(max(size) / 40))
        else:
            out = Image.new("RGB", size, colour)
        out.paste(image, ((size[0] - width) // 2, (size[1] - height) // 2))
        return out

    return edit


def cropped(left: float, top: float, right: float, bottom: float) -> Edit:
    """Without these shares of the width and the height."""

    def edit(image: Image.Image) -> Image.Image:
        width, height = image.size
        return image.crop(
            (round(width * left), round(height * top), round(width * (1 - right)), round(height * (1 - bottom)))
        )

    return edit


def captioned(*lines: str, at: float = 0.7) -> Edit:
    def edit(image: Image.Image) -> Image.Image:
        out, size = image.copy(), max(9, round(image.height * 0.08))
        draw = ImageDraw.Draw(out)
        for number, line in enumerate(lines):
            left = (image.width - draw.textlength(line, font_size=size)) / 2
            place = left, image.height * at + number * size * 1.25
            draw.text(place, line, "white", font_size=size, stroke_width=max(1, size // 12), stroke_fill="black")
        return out

    return edit


def with_sticker(image: Image.Image) -> Image.Image:
    out, radius = image.copy(), round(min(image.size) * 0.11)
    x, y = image.width - radius - 8, radius + 8
    ImageDraw.Draw(out).ellipse((x - radius, y - radius, x + radius, y + radius), "gold", "black", 3)
    return out


def watermarked(image: Image.Image) -> Image.Image:
    layer = Image.new("RGBA", image.size, (0, 0, 0, 0))
    place = image.width * 0.1, image.height * 0.42
    ImageDraw.Draw(layer).text(place, "PREVIEW PHOTO", (255, 255, 255, 120), font_size=round(image.height * 0.12))
    return Image.alpha_composite(image.convert("RGBA"), layer.rotate(25)).convert("RGB")


def dated(image: Image.Image) -> Image.Image:
    out = image.copy()
    place = image.width * 0.6, image.height * 0.91
    ImageDraw.Draw(out).text(place, "2024 05 17 14:32", "darkorange", font_size=max(9, round(image.height * 0.055)))
    return out


EDITS: dict[str, Edit] = {
    "border 1%": framed(0.01, "white"),
    "border 3%": framed(0.03, "black"),
    "border 5%": framed(0.05, "white"),
    "border 10%": framed(0.10, "firebrick"),
    "letterbox 1:1, black": letterboxed(1, "black"),
    "letterbox 16:9, white": letterboxed(16 / 9, "white"),
    "letterbox 9:16, black": letterboxed(9 / 16, "black"),
    "letterbox 1:1, blurred": letterboxed(1, None),
    "letterbox 16:9, blurred": letterboxed(16 / 9, None),
    "crop 5%, left": cropped(0.05, 0, 0, 0),
    "crop 5%, top": cropped(0, 0.05, 0, 0),
    "crop 5%, right and bottom": cropped(0, 0, 0.05, 0.05),
    "crop 5% of both sides together": cropped(0.025, 0.025, 0.025, 0.025),
    "crop 2% of every side": cropped(0.02, 0.02, 0.02, 0.02),
    "crop 5% of every side": cropped(0.05, 0.05, 0.05, 0.05),
    "crop 10% of every side": cropped(0.1, 0.1, 0.1, 0.1),
    "crop 10%, left and top": cropped(0.1, 0.1, 0, 0),
    "text, one line": captioned("WHEN YOU SEE IT", at=0.85),
    "text, two lines": captioned("WHEN YOU SEE IT", "and then you wait", at=0.04),
    "text, three lines": captioned("WHEN YOU SEE IT", "and then you wait", "a little longer", at=0.65),
    "sticker": with_sticker,
    "watermark": watermarked,
    "date stamp": dated,
}
