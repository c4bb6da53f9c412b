"""The album's palette: the colours a caption may name, and the small arithmetic of shades."""

Rgb = tuple[int, int, int]

# Warm and a little muted, so that any two stand well beside each other.
NAMED_COLOURS: dict[str, Rgb] = {
    "red": (214, 72, 66),
    "orange": (241, 143, 62),
    "yellow": (246, 198, 75),
    "green": (94, 160, 98),
    "blue": (68, 128, 194),
    "purple": (143, 108, 184),
    "pink": (243, 152, 168),
    "white": (247, 243, 235),
    "black": (62, 62, 76),
    "brown": (158, 106, 70),
    "grey": (152, 157, 166),
}

CREAM: Rgb = (252, 246, 233)
INK: Rgb = (52, 48, 60)
GLASS: Rgb = (186, 222, 232)
STEEL: Rgb = (128, 134, 146)
WOOD: Rgb = (176, 122, 78)
LEAF: Rgb = (84, 150, 92)


def mix_colours(one: Rgb, other: Rgb, share: float) -> Rgb:
    """A colour between two: 0 is the first, 1 the other."""
    return (
        round(one[0] + (other[0] - one[0]) * share),
        round(one[1] + (other[1] - one[1]) * share),
        round(one[2] + (other[2] - one[2]) * share),
    )


def darker(colour: Rgb, share: float = 0.2) -> Rgb:
    """Toward a warm dark, never toward plain black, which would look dirty."""
    return mix_colours(colour, (48, 36, 62), share)


def lighter(colour: Rgb, share: float = 0.3) -> Rgb:
    """Toward cream."""
    return mix_colours(colour, (255, 250, 240), share)
