"""Parses captions into phrases and words, and compares the phrases of two texts.

A caption fits another image when the captions and descriptions of that image cover its phrases: "a brown dog in the
park" fits an image with the caption "in the park, there are two brown dogs and a bench". A unit is a character in
Chinese and a word in other scripts; a word is a stemmed word, or two neighbouring characters of Chinese. In both
languages the head of a phrase is its last unit and the modifiers come before it: 花瓶 is not 花, a flower pot is not a
flower, but a red umbrella is an umbrella. Words also state kinds of beings, sex, age and number.
"""

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

Phrase = tuple[str, ...]  # characters of Chinese, words of other scripts
Phrases = frozenset[Phrase]

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
_STARTS_HAN = re.compile(f"[{_HAN}]")
_PIECE = re.compile(rf"[{_HAN}]+|[^\W_]+(?:['’-][^\W_]+)*|[^\w\s]+")
_NOTHING = "\x00"
_IRREGULAR = {"people": "person", "men": "man", "women": "woman", "children": "child", "feet": "foot"}
_ENDING = re.compile(r"(?:(?<=[^s])s|ing|ed)$")
_RUN = re.compile(rf"[{_HAN}]+|[^\W_]+(?:['’-][^\W_]+)*")
_HAN_RUN = re.compile(f"[{_HAN}]")
_DOUBLED = re.compile(r"([bdgmnprt])\1$")  # "running" and "runs"
_STOP_CHARACTERS = re.compile("[一的了着在是和与及并有个只条名位件上里中]")

KINDS = ("person", "dog", "animal")
SEXES = ("male", "female")
AGES = ("child", "adult")
MANY = "many"

# English words and Chinese characters of each attribute. An attribute that is not stated may still hold.
_ENGLISH = {
    "male": "man men boy boys guy guys male males gentleman gentlemen his he him father son husband",
    "female": "woman women girl girls lady ladies female females her she mother daughter wife",
    "child": "child children kid kids boy boys girl girls baby babies toddler toddlers infant youth youths",
    "adult": "man men woman women adult adults guy guys lady ladies gentleman gentlemen",
    "person": "person people man men woman women boy boys girl girls child children kid kids baby toddler guy guys "
    "lady ladies player players group crowd biker bikers rider skier skateboarder surfer climber cyclist family team "
    "couple adult adults athlete performer dancer skater swimmer hiker snowboarder runner worker he she",
    "dog": "dog dogs puppy puppies hound poodle retriever greyhound greyhounds terrier labrador collie",
    "animal": "cat cats kitten horse horses cow cows sheep goat bird birds duck ducks elephant elephants zebra zebras "
    "giraffe giraffes bear bears monkey lion tiger rabbit animal animals seagull seagulls",
    "many": "two three four five six seven eight nine ten several many some group crowd couple people men women "
    "children kids boys girls dogs guys ladies players adults puppies cats horses cows birds both team family youths",
}
_CHINESE = {
    "male": "男 他",
    "female": "女 她",
    "child": "孩 童 婴 宝宝 少年 少女",
    "adult": "男人 女人 男子 女子 男士 女士 老人 成人",
    "person": "人 男 女 孩 童 他 她 者 员 手们",
    "dog": "狗 犬",
    "animal": "猫 马 牛 羊 鸟 鸭 象 斑马 长颈鹿 熊 猴 狮 虎 兔 动物 海鸥",
    "many": "两 二 三 四 五 六 七 八 九 几 群 们 些 许多 众 一对 队",
}
_BY_WORD: dict[str, list[str]] = {}


def parse_phrases(text: str) -> Phrases:
    """Returns the phrases of a text, without stop words, the number one, measure words and word endings."""
    phrases: set[Phrase] = set()
    words: list[str] = []
    plain = unicodedata.normalize("NFKC", text).casefold()
    if " of" in plain:  # the patterns start at every word, and most captions have none
        plain = _PAIR.sub("", plain)
    plain = plain.replace("by day", "daytime")
    if " in " in plain:
        plain = _CLAD.sub(r"\2 \1", plain)
    has_han = not plain.isascii()
    for piece in [*_PIECE.findall(plain), ","]:
        if has_han and _STARTS_HAN.match(piece):
            phrases |= _chinese(piece)
        elif unit := _unit_of(piece):
            words.append(unit)
        elif words:
            phrases.add(tuple(words))
            words = []
    return frozenset(phrases - {()})


def covers(phrases: Phrases, phrase: Phrase) -> bool:
    """Returns whether one of the phrases has the same head and all units of `phrase`, and none has another number: "two
    birds" does not fit an image of four birds of which two are white."""
    about = _group_by_head(phrases).get(phrase[-1])
    return about is not None and _covers_among(phrase, phrases, about)


def _covers_among(phrase: Phrase, phrases: Phrases, about: list[Phrase]) -> bool:
    """Whether the phrases cover one; `about`: those with its head."""
    if phrase in phrases and _NUMBERS.isdisjoint(phrase):
        return True
    return any(_within(phrase, other) for other in about) and not any(_recounts(phrase, other) for other in about)


@lru_cache(maxsize=1 << 17)
def _group_by_head(phrases: Phrases) -> dict[str, list[Phrase]]:
    """Returns the phrases by their last unit. An image's are asked for again with every query that may fit it."""
    groups: dict[str, list[Phrase]] = {}
    for phrase in phrases:
        groups.setdefault(phrase[-1], []).append(phrase)
    return groups


def covers_all(known: Phrases, wanted: Phrases) -> bool:
    """Returns whether `known` covers all phrases of `wanted`."""
    return all(covers(known, phrase) for phrase in wanted)


def find_missing_units(wanted: Phrases, known: Phrases) -> list[str]:
    """Returns the characters or words of `wanted` that `known` does not cover, sorted; [] where it covers all."""
    missing: set[str] = set()
    groups = _group_by_head(known)
    for phrase in wanted:
        about = groups.get(phrase[-1])
        if about is None:
            missing.update(phrase)
        elif not _covers_among(phrase, known, about):
            lacking = [sorted(set(phrase) - set(other)) for other in about]
            least = min(lacking, key=lambda left: (len(left), left))
            missing.update(least or phrase)
    return sorted(missing)


def restore_words(text: str, units: Iterable[str]) -> list[str]:
    """Returns the words of a text that the units stand for, as they are written there and in their order: "white", not
    "whit"; Chinese characters that follow each other as one word."""
    wanted, words = set(units), list[str]()
    for piece in _pieces_of(text):
        if _STARTS_HAN.match(piece):
            runs = re.split(_NOTHING, "".join(char if char in wanted else _NOTHING for char in piece))
            words += [run for run in runs if run]
        elif _unit_of(piece.casefold()) in wanted:
            words.append(piece)
    return list(dict.fromkeys(words))


@lru_cache(maxsize=1 << 14)
def _pieces_of(text: str) -> list[str]:
    return _PIECE.findall(unicodedata.normalize("NFKC", text))


def distinguishing_units(missing: Iterable[str]) -> list[str]:
    """Returns the units that change the meaning of an otherwise similar caption: colours, numbers, man or woman, time
    of day, not."""
    return [word for word in missing if word in _DISTINGUISHING]


def _chinese(piece: str) -> set[Phrase]:
    counted = _ONE.sub(" ", _MANY.sub(r" \1", _GLUE.sub("", _INSIDE.sub(" ", piece))))
    return {tuple(_WHERE.sub("", one)) for one in _BETWEEN.sub(" ", _AT.sub(r" \1 ", counted)).split()}


@lru_cache(maxsize=1 << 16)
def _unit_of(piece: str) -> str:
    """Returns the unit that a word is; "" for what ends a phrase."""
    if piece in SMALL_WORDS or not piece[0].isalnum():
        return ""
    return piece if piece in _NUMBERS else stem_word(piece)


@lru_cache(maxsize=1 << 16)
def stem_word(word: str) -> str:
    """Removes the endings -s, -ing, -ed and -e."""
    word = _IRREGULAR.get(word, word)
    cut = _ENDING.sub("", word)
    return (cut if len(cut) > 2 else word).removesuffix("e") or word


def _recounts(phrase: Phrase, other: Phrase) -> bool:
    """Returns whether the numbers differ while `other` has no modifier that `phrase` lacks."""
    counts = [set(one) & _NUMBERS for one in (phrase, other)]
    return bool(counts[0] and counts[1] and counts[0] != counts[1]) and set(other) - counts[1] <= set(phrase)


def _within(short: Phrase, long: Phrase) -> bool:
    rest = iter(long)
    return all(unit in rest for unit in short)


def _words(text: str) -> set[str]:
    return set(text.split())


SMALL_WORDS = _words(
    "a an the one and with in on at by of to into onto for from as is are was were be being there his her its their he "
    "she it they who which that while this these some"
)
_COLOURS = _words("red orange yellow green blue purple pink white black brown grey gray golden silver")
_NUMBERS = set("二两三四五六七八九十几") | _words("two three four five six seven eight nine ten several many")
_OTHERS = _words(
    "blond blonde no not without man woman boy girl lady guy old young dusk night day daytime dawn snowy rainy"
)
_DISTINGUISHING = set("红橙黄绿青蓝紫粉白黑棕灰褐金银男女老夜晚晨昼雪雨没无不") | {
    word if word in _NUMBERS else stem_word(word) for word in _COLOURS | _NUMBERS | _OTHERS
}
# "A person in red" becomes "a red person"; "a person in a red coat" stays.
_CLAD = re.compile(  # from the start of a word only: else the time is quadratic in its length
    rf"(?<![\w'-])([\w'-]+) in ({'|'.join(sorted(_COLOURS))})(?! (?!(?:{'|'.join(sorted(SMALL_WORDS))})\b)\w)"
)
for _name, _kind_words in _ENGLISH.items():
    for _word in _kind_words.split():
        _BY_WORD.setdefault(_word, []).append(_name)
_BY_CHARACTERS = [(_part, _name) for _name, _parts in _CHINESE.items() for _part in _parts.split()]


def split_words(text: str) -> list[str]:
    """Returns the distinct content words of a text in their order."""
    return list(dict.fromkeys(_words_of(_runs(text))))


def list_attributes(text: str) -> frozenset[str]:
    """Returns the attributes that a text states."""
    attributes: set[str] = set()
    for run in _runs(text):
        if _HAN_RUN.match(run):
            attributes.update(name for part, name in _BY_CHARACTERS if part in run)
        else:
            attributes.update(_BY_WORD.get(run, ()))
    return frozenset(attributes)


def _runs(text: str) -> list[str]:
    return _RUN.findall(unicodedata.normalize("NFKC", text).casefold())


def _words_of(runs: Iterable[str]) -> Iterable[str]:
    for run in runs:
        if not _HAN_RUN.match(run):
            if run not in SMALL_WORDS:
                yield _DOUBLED.sub(r"\1", stem_word(run))
            continue
        for piece in _STOP_CHARACTERS.split(run):
            yield from (piece[at : at + 2] for at in range(max(len(piece) - 1, min(len(piece), 1))))
