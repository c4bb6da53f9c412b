"""What a caption says, as phrases, and whether another text says as much.

A caption fits another picture when all that it says holds there. What holds of a picture is known from what was said of
it: "a brown dog in the park" fits a picture called "in the park, there are two brown dogs and a bench". Chinese is read
by the character, other scripts by the word. In both languages what a phrase is about stands last and what describes it
before: 花瓶 is no 花, a flower pot no flower, but a red umbrella is an umbrella.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

Phrase = tuple[str, ...]  # characters of Chinese, words of other scripts
Phrases = frozenset[Phrase]

_HAN = "\u3400-\u9fff\uf900-\ufaff"
_MEASURES = "个個只隻辆艘架把张盏盆朵双条名位头匹件块片座栋幅束支根杯碗瓶盘串台艇部"
# One of a thing is no more than the thing: a picture of two dogs is found by "a dog".
_ONE = re.compile(rf"一[{_MEASURES}]|一(?![起样边直些切群对排])")
_MANY = re.compile(rf"([二两三四五六七八九十几])[{_MEASURES}]")
_AT = re.compile("在([^在]{1,6}?)(?:[上里中内]面?|旁边?|边)(?![衣海学班])")  # 在海滩上奔跑: the beach, and running
_BETWEEN = re.compile(r"拍到的?|拍摄的?|正在|以及|并且|[有和与及并在是正]")
_INSIDE = re.compile(f"(?<=[{_HAN}])[上里中内边旁]的")  # 公园里的狗: the park, and a dog
_GLUE = re.compile("[的着了]")
_WHERE = re.compile("(?<=.)[上里中内边旁]$")  # 湖边, 湖上, 湖里: by the lake, as far as captions tell
_PAIR = re.compile(r"\b(?:pairs?|bunch(?:es)?|photos?|pictures?|images?) of\b")
_PIECE = re.compile(rf"[{_HAN}]+|[^\W_]+(?:['’-][^\W_]+)*|[^\w\s]+")
_IRREGULAR = {"people": "person", "men": "man", "women": "woman", "children": "child", "feet": "foot"}
_ENDING = re.compile(r"(?:(?<=[^s])s|ing|ed)$")


def parse_phrases(text: str) -> Phrases:
    """The phrases of a text, without small words, the number one, measure words and endings of words."""
    phrases: set[Phrase] = set()
    words: list[str] = []
    plain = _PAIR.sub("", unicodedata.normalize("NFKC", text).casefold()).replace("by day", "daytime")
    for piece in [*_PIECE.findall(_CLAD.sub(r"\2 \1", plain)), ","]:
        if re.match(f"[{_HAN}]", piece):
            phrases |= _chinese(piece)
        elif piece in _SMALL or not piece[0].isalnum():
            phrases.add(tuple(words))
            words = []
        else:
            words.append(piece if piece in _NUMBERS else _stem(piece))
    return frozenset(phrases - {()})


def covers(phrases: Iterable[Phrase], phrase: Phrase) -> bool:
    """Whether one of the phrases is about the same and describes it at least as closely, and none counts it otherwise:
    two birds are not said of a picture of four birds, two of which are white."""
    about = [other for other in phrases if other[-1] == phrase[-1]]
    return any(_within(phrase, other) for other in about) and not any(_recounts(phrase, other) for other in about)


def find_missing_units(wanted: Phrases, known: Phrases) -> list[str]:
    """The characters or words of `wanted` that `known` does not say of the same thing, sorted; none: it says as
    much."""
    missing: set[str] = set()
    for phrase in wanted:
        if not covers(known, phrase):
            about = [set(phrase) - set(other) for other in known if other[-1] == phrase[-1]]
            least = min((sorted(left) for left in about), key=lambda left: (len(left), left), default=[])
            missing.update(least or phrase)
    return sorted(missing)


def distinguishing_units(missing: Iterable[str]) -> list[str]:
    """Those words that make two captions speak of different things however alike they read: colours, numbers, man or
    woman, time of day, not."""
    return [word for word in missing if word in _DISTINGUISHING]


def _chinese(piece: str) -> set[Phrase]:
    counted = _ONE.sub(" ", _MANY.sub(r" \1", _GLUE.sub("", _INSIDE.sub(" ", piece))))
    return {tuple(_WHERE.sub("", one)) for one in _BETWEEN.sub(" ", _AT.sub(r" \1 ", counted)).split()}


def _stem(word: str) -> str:
    """Enough for dogs, rides and riding; other endings stay."""
    word = _IRREGULAR.get(word, word)
    cut = _ENDING.sub("", word)
    return (cut if len(cut) > 2 else word).removesuffix("e") or word


def _recounts(phrase: Phrase, other: Phrase) -> bool:
    """Whether both count, differently, and `other` describes what it counts no more closely than `phrase` does."""
    counts = [set(one) & _NUMBERS for one in (phrase, other)]
    return bool(counts[0] and counts[1] and counts[0] != counts[1]) and set(other) - counts[1] <= set(phrase)


def _within(short: Phrase, long: Phrase) -> bool:
    rest = iter(long)
    return all(unit in rest for unit in short)


def _words(text: str) -> set[str]:
    return set(text.split())


_SMALL = _words(
    "a an the one and with in on at by of to into onto for from as is are was were be being there his her its their he "
    "she it they who which that while this these some"
)
_COLOURS = _words("red orange yellow green blue purple pink white black brown grey gray golden silver")
_NUMBERS = set("二两三四五六七八九十几") | _words("two three four five six seven eight nine ten several many")
_OTHERS = _words(
    "blond blonde no not without man woman boy girl lady guy old young dusk night day daytime dawn snowy rainy"
)
_DISTINGUISHING = set("红橙黄绿青蓝紫粉白黑棕灰褐金银男女老夜晚晨昼雪雨没无不") | {
    word if word in _NUMBERS else _stem(word) for word in _COLOURS | _NUMBERS | _OTHERS
}
# A person in red is a red person, and a person in a red coat one with a coat.
_CLAD = re.compile(rf"([\w'-]+) in ({'|'.join(sorted(_COLOURS))})(?! (?!(?:{'|'.join(sorted(_SMALL))})\b)\w)")
