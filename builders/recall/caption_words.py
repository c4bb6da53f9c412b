"""Read the content of captions: words, phrases, and values of kind, sex, age, number, colour and place.

A word is a stemmed word, or one character of Chinese. A phrase is cut at small words and punctuation. In both
languages its last unit is the head and the others modify it: a flower pot is not a flower, 花瓶 is not 花, but a red
umbrella is an umbrella. Captions say all of another one if each of its phrases is part of one of their phrases
with the same head: "a brown horse and a black dog" does not say "a brown dog".
"""

import re
import unicodedata
from collections.abc import Collection, Iterable
from functools import lru_cache
from pathlib import Path

from builders.precision.label_files import SHIPPED_FOLDER
from querytruth.backends.files.text_formats import read_package_yaml

Phrase = tuple[str, ...]  # characters of Chinese, words of other scripts

# Values of a group exclude each other ("two" and "three"): per group a list of values, per value its words in English
# and parts of words in Chinese.
VALUES_FILE = SHIPPED_FOLDER / "ambiguity" / "values.yaml"

_HAN = "\u3400-\u9fff\uf900-\ufaff"
_MEASURES = "个個只隻辆艘架把张盏盆朵双条名位头匹件块片座栋幅束支根杯碗瓶盘串台艇部"
# "One" adds nothing to the noun: "a dog" also fits an image of two dogs.
_ONE = re.compile(rf"一[{_MEASURES}]|一(?![起样边直些切群对排])")
_MANY = re.compile(rf"([二两三四五六七八九十几])[{_MEASURES}]")
_AT = re.compile("在([^在]{1,6}?)(?:[上里中内]面?|旁边?|边)(?![衣海学班])")  # 在海滩上奔跑: the beach, and running
_BETWEEN = re.compile(r"拍到的?|拍摄的?|正在|以及|并且|[有和与及并在是正]")
_INSIDE = re.compile(f"(?<=[{_HAN}])[上里中内边旁]的")  # 公园里的狗: the park, and a dog
_GLUE = re.compile("[的着了]")
_WHERE = re.compile("(?<=.)[上里中内边旁]$")  # 湖边, 湖上 and 湖里 count as the same place
_PAIR = re.compile(r"\b(?:pairs?|bunch(?:es)?|photos?|pictures?|images?) of\b")
_PIECE = re.compile(rf"[{_HAN}]+|[^\W_{_HAN}]+(?:['’-][^\W_{_HAN}]+)*|[^\w\s]+")
_IS_HAN = re.compile(f"[{_HAN}]")
_IRREGULAR = {"people": "person", "men": "man", "women": "woman", "children": "child", "feet": "foot"}
_ENDING = re.compile(r"(?:(?<=[^s])s|ing|ed)$")
_DOUBLED = re.compile(r"([bdgmnprt])\1$")  # "running" and "runs"


def _words(text: str) -> set[str]:
    return set(text.split())


_SMALL_WORDS = _words(
    "a an the one and with in on at by of to into onto for from as is are was were be being there his her its their he "
    "she it they who which that while this these some"
)
# "A person in red" becomes "a red person"; "a person in a red coat" stays. From the start of a word only: else the time
# is quadratic in its length.
_CLAD = re.compile(
    r"(?<![\w'-])([\w'-]+) in (red|orange|yellow|green|blue|purple|pink|white|black|brown|gr[ae]y)"
    rf"(?! (?!(?:{'|'.join(sorted(_SMALL_WORDS))})\b)\w)"
)
_NUMBERS = set("二两三四五六七八九十几") | _words("two thre four fiv six seven eight nin ten several many")


@lru_cache(maxsize=1 << 15)
def parse_phrases(text: str) -> tuple[Phrase, ...]:
    """Return the phrases of a text, without small words, the number one, measure words and word endings."""
    phrases: list[Phrase] = []
    words: list[str] = []
    plain = _PAIR.sub("", normalize_caption(text)).replace("by day", "daytime")
    for piece in [*_PIECE.findall(_CLAD.sub(r"\2 \1", plain) if " in " in plain else plain), ","]:
        if _IS_HAN.match(piece):
            phrases += _split_chinese(piece)
        elif piece[0].isalnum() and piece not in _SMALL_WORDS:
            words.append(stem_word(piece))
        elif words:
            phrases.append(tuple(words))
            words = []
    return tuple(phrase for phrase in phrases if phrase)


def normalize_caption(text: str) -> str:
    """Return the text in one width and case."""
    return unicodedata.normalize("NFKC", text).casefold()


def _split_chinese(run: str) -> list[Phrase]:
    counted = _ONE.sub(" ", _MANY.sub(r" \1", _GLUE.sub("", _INSIDE.sub(" ", run))))
    return [tuple(_WHERE.sub("", one)) for one in _BETWEEN.sub(" ", _AT.sub(r" \1 ", counted)).split()]


@lru_cache(maxsize=1 << 16)
def stem_word(word: str) -> str:
    """Remove the endings -s, -ing, -ed and -e, and a doubled letter before them."""
    word = _IRREGULAR.get(word, word)
    cut = _ENDING.sub("", word)
    return _DOUBLED.sub(r"\1", (cut if len(cut) > 2 else word).removesuffix("e") or word)


def list_words(phrases: Iterable[Phrase]) -> list[str]:
    """Return the words of phrases: stems, and single Chinese characters."""
    return [word for phrase in phrases for word in phrase]


def say_all(known: Collection[Phrase], wanted: Collection[Phrase]) -> bool:
    """Return whether each of the `wanted` phrases is part of a known one with the same head, and no number differs:
    "four birds, two white birds" does not say "two birds"."""
    for phrase in wanted:
        about = [other for other in known if other[-1] == phrase[-1]]
        if not any(set(phrase) <= set(other) for other in about) or any(_recounts(phrase, other) for other in about):
            return False
    return bool(wanted)


def _recounts(phrase: Phrase, other: Phrase) -> bool:
    """Return whether the numbers differ while `other` has no modifier that `phrase` lacks."""
    counts = [set(one) & _NUMBERS for one in (phrase, other)]
    return bool(counts[0] and counts[1] and counts[0] != counts[1]) and set(other) - counts[1] <= set(phrase)


def restore_words(text: str, words: Collection[str]) -> list[str]:
    """Return the words of a text as written there and in their order: "white", not "whit"; consecutive Chinese
    characters as one word."""
    found: list[str] = []
    for piece in _PIECE.findall(unicodedata.normalize("NFKC", text)):
        if not _IS_HAN.match(piece):
            found += [piece] if stem_word(piece.casefold()) in words else []
            continue
        found += "".join(one if one in words else " " for one in piece).split()
    return list(dict.fromkeys(found))


class ValueReader:
    """Reads which values a text states, as bits. `groups`: per group the bits of its values."""

    def __init__(self, path: Path = VALUES_FILE) -> None:
        self.groups: dict[str, int] = {}
        self._by_word: dict[str, int] = {}
        self._by_part: dict[str, int] = {}
        bit = 1
        for group, values in read_package_yaml(path).items():
            for value in values:
                self.groups[group] = self.groups.get(group, 0) | bit
                for word in value.split():
                    known = self._by_word if word.isascii() else self._by_part
                    known[word] = known.get(word, 0) | bit
                bit <<= 1

    def read(self, text: str) -> int:
        """Return the bits of the values that a text states."""
        bits, plain = 0, normalize_caption(text)
        for word in re.findall("[a-z]+", plain):
            bits |= self._by_word.get(word, 0)
        for part, value in () if plain.isascii() else self._by_part.items():
            bits |= value if part in plain else 0
        return bits
