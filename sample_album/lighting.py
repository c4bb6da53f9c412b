"""The hour and the weather: what they do to the sky and to every colour under it."""

from dataclasses import dataclass, replace

from PIL import Image

from sample_album.colours import Rgb


@dataclass(frozen=True, slots=True)
class Light:
    """`tint`: what red, green and blue of everything beneath the sky are multiplied by."""

    name: str
    sky: tuple[Rgb, Rgb]  # at the top, at the horizon
    sun: Rgb
    cloud: Rgb
    tint: tuple[float, float, float]

    def tint_colour(self, colour: Rgb) -> Rgb:
        """A colour as it looks in this light."""
        red, green, blue = (min(255, round(c * t)) for c, t in zip(colour, self.tint, strict=True))
        return red, green, blue

    def tint_sprite(self, sprite: Image.Image) -> Image.Image:
        """A copy of an RGBA sprite in this light; by day the sprite itself."""
        if self.tint == (1.0, 1.0, 1.0):
            return sprite
        table = [min(255, round(level * t)) for t in self.tint for level in range(256)]
        return sprite.point([*table, *range(256)])


LIGHTS: dict[str, Light] = {
    "day": Light("day", ((110, 184, 226), (228, 241, 238)), (255, 236, 166), (255, 255, 252), (1.0, 1.0, 1.0)),
    "evening": Light(
        "evening", ((104, 104, 170), (255, 190, 134)), (255, 222, 150), (255, 214, 190), (1.0, 0.88, 0.83)
    ),
    "night": Light("night", ((24, 32, 72), (84, 92, 146)), (250, 244, 214), (74, 84, 134), (0.66, 0.70, 0.90)),
    "snow": Light("snow", ((166, 192, 216), (232, 238, 243)), (255, 250, 232), (246, 249, 251), (0.96, 0.98, 1.0)),
}

# Under a roof the lamps are on: evenings and nights are only a little dimmer and warmer.
_INDOORS: dict[str, tuple[float, float, float]] = {"evening": (1.0, 0.93, 0.86), "night": (0.88, 0.80, 0.76)}


def get_light(name: str, indoors: bool) -> Light:
    """The light by its name, warm and nearly full where lamps help."""
    light = LIGHTS[name]
    return replace(light, tint=_INDOORS.get(name, light.tint)) if indoors else light
