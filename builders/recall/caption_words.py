"""Words of captions, and the attributes that they state: kinds of beings, sex, age and number.

A word is a stemmed word of a script with spaces, or two neighbouring characters of Chinese, which needs no dictionary.
"""

import re
import unicodedata
from collections.abc import Iterable

from builders.recall.phrases import SMALL_WORDS, stem_word

_HAN = "\u3400-\u9fff\uf900-\ufaff"
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
for _name, _words in _ENGLISH.items():
    for _word in _words.split():
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
