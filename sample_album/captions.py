"""Turns what a caption claims into sentences, English and Chinese, that say this and nothing else."""

import random

from sample_album.album_records import CaptionClaims, CaptionRequirement
from sample_album.object_kinds import COLOUR_ZH, KIND_BY_LABEL
from sample_album.places import PLACES

_NUMBERS_EN = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_NUMBERS_ZH = "零一两三四五六七八九"
_LIGHT_EN = {"day": "by day", "evening": "at dusk", "night": "at night", "snow": "on a snowy day"}
_LIGHT_ZH = {"day": "白天的", "evening": "傍晚的", "night": "夜晚的", "snow": "雪天的"}
_VOWEL_SOUNDS = ("a", "e", "i", "o", "u", "SUV")  # as far as the album's words go


def format_caption_en(claims: CaptionClaims, rng: random.Random) -> str:
    """One of three shapes of sentence; the verb agrees with the first thing named."""
    things = [_thing_en(requirement) for requirement in claims.required]
    listed = _join_listed(things, ", ", " and ")
    place = PLACES[claims.place].en if claims.place else ""
    light = _LIGHT_EN[claims.light] if claims.light else ""
    where = f"{place} {light}".strip()
    shape = rng.randrange(3) if where else 0
    if shape == 1:
        several = (claims.required[0].count or 1) > 1
        return f"{_capital(where)}, there {'are' if several else 'is'} {listed}."
    if shape == 2 and len(things) > 1:
        return f"{_capital(things[0])} with {_join_listed(things[1:], ', ', ' and ')} {where}."
    return _capital(f"{listed} {where}".strip()) + "."


def format_caption_zh(claims: CaptionClaims, rng: random.Random) -> str:
    """One of three shapes of sentence, with the measure word of each thing."""
    things = [_thing_zh(requirement) for requirement in claims.required]
    listed = _join_listed(things, "、", "和")
    where = (_LIGHT_ZH[claims.light] if claims.light else "") + (PLACES[claims.place].zh if claims.place else "")
    if not where or not claims.place:
        return f"{where}{listed}。"
    shape = rng.randrange(3)
    if shape == 1:
        return f"在{where}拍到的{listed}。"
    if shape == 2:
        return f"{listed}，在{where}。"
    return f"{where}有{listed}。"


def _join_listed(things: list[str], comma: str, conjunction: str) -> str:
    return conjunction.join([comma.join(things[:-1]), things[-1]] if len(things) > 1 else things)


def _thing_en(requirement: CaptionRequirement) -> str:
    kind = KIND_BY_LABEL[requirement.label]
    count = requirement.count or 1
    noun = kind.singular_en if count == 1 else kind.plural_en
    colour = requirement.colour
    if colour and kind.key == "person":
        noun, colour = f"{noun} in {colour}", None
    if colour and " of " in noun:  # a pair of red shoes, not a red pair of shoes
        head, tail = noun.split(" of ", 1)
        noun, colour = f"{head} of {colour} {tail}", None
    if colour:
        noun = f"{colour} {noun}"
    if requirement.count is not None:
        return f"{_NUMBERS_EN[count]} {noun}"
    return f"{'an' if noun.startswith(_VOWEL_SOUNDS) else 'a'} {noun}"


def _thing_zh(requirement: CaptionRequirement) -> str:
    kind = KIND_BY_LABEL[requirement.label]
    number = _NUMBERS_ZH[requirement.count or 1]
    if not requirement.colour:
        return f"{number}{kind.measure_word_zh}{kind.zh}"
    colour = COLOUR_ZH[requirement.colour]
    if kind.key == "person":
        return f"{number}个穿{colour}上衣的人"
    return f"{number}{kind.measure_word_zh}{colour}的{kind.zh}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
