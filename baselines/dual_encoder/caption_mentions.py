"""Captions that an augmentation of the image could make wrong."""

import re

_SIDES = re.compile(r"\b(left|right)(most|ward|wards|hand)?\b|[左右]", re.IGNORECASE)
_COLOURS = re.compile(
    r"\b(colou?r(ed|ful|s)?|red|orange|yellow|green|blue|purple|violet|pink|brown|beige|tan|gold(en)?|silver|blond(e)?"
    r"|black|white|gr[ae]y|turquoise|teal|navy|maroon|cyan|magenta)\b"
    r"|[红橙黄绿蓝紫粉棕褐黑白灰金银青彩色]",
    re.IGNORECASE,
)


def mentions_left_or_right(text: str) -> bool:
    """Returns whether a caption, in English or Chinese, mentions left or right: its image must not be mirrored."""
    return _SIDES.search(text) is not None


def mentions_colours(text: str) -> bool:
    """Returns whether a caption mentions a colour: the image must keep its hues."""
    return _COLOURS.search(text) is not None
