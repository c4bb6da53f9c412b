"""What captions state of counts, colours and places, and how far two images contradict.

A statement is "group value", for example "count dog 2" or "place snow". Values of one group exclude each other more or
less: an image of two dogs is not one of three. What is not stated may still hold.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence

import numpy as np

from builders.recall.caption_index import AnswerIndex, MemberIndex
from querytruth.array_types import FloatArray, RowIndices

# Features and their groups of statements; of several groups the one that contradicts most counts.
CONTRADICTIONS = {
    "count_contradiction": ("count person", "count dog", "count animal"),
    "colour_contradiction": ("colour dog", "colour animal", "colour clothes", "colour thing"),
    "place_contradiction": ("place",),
}
_ANY_FITS = "count person", "count dog", "count animal"  # one of the values is enough: "dogs" are two or more

_HAN = "\u3400-\u9fff\uf900-\ufaff"
_PIECE = re.compile(rf"[{_HAN}]+|[^\W\d_]+|\d+|[^\w\s]")
_HAN_RUN = re.compile(f"[{_HAN}]")

_NUMBERS = {"two": 2, "both": 2, "couple": 2, "pair": 2, "twin": 2, "three": 3, "four": 4, "five": 4, "six": 4}

_NUMBERS |= {"seven": 4, "eight": 4, "nine": 4, "ten": 4, "several": 4, "many": 4, "group": 4, "crowd": 4, "pack": 4}
_MOST = 4  # and more
_SINGULAR = {
    "person": "person man woman boy girl child kid baby toddler guy lady biker rider skier skateboarder surfer climber "
    "cyclist snowboarder skater swimmer hiker runner worker player teen teenager",
    "dog": "dog puppy hound poodle retriever greyhound terrier labrador collie lab sheltie beagle",
    "animal": "cat kitten horse cow sheep goat bird duck elephant zebra giraffe bear monkey rabbit animal seagull",
}
_IRREGULAR = {"people": "person", "men": "man", "women": "woman", "children": "child", "kids": "kid", "sheep": "sheep"}
_KIND_OF = {word: kind for kind, words in _SINGULAR.items() for word in words.split()}
_PLURALS = {f"{word[:-1]}ies" if word[-1] == "y" else f"{word}s": kind for word, kind in _KIND_OF.items()}
_PLURALS |= {plural: _KIND_OF[word] for plural, word in _IRREGULAR.items()}

_PLAIN_COLOURS = "red orange yellow green blue purple pink white black brown gray"
_COLOURS = {name: name for name in _PLAIN_COLOURS.split()}
_COLOURS |= {"grey": "gray", "golden": "yellow", "tan": "brown", "beige": "brown", "cream": "brown", "blond": "yellow"}
_COLOURS |= {"blonde": "yellow", "chocolate": "brown", "teal": "blue", "lavender": "purple"}
# The coats of animals have few colours, whose names vary: a golden dog is a tan, yellow or brown one.
_COATS = {"red": "brown", "orange": "brown", "yellow": "brown"}
_BETWEEN_COLOURS = {"and", "&", ",", "-", "colored", "coloured", "light", "dark", "ish"}
_CLAD = {"in", "wearing", "dressed"}
_THINGS = {
    "clothes": "shirt tshirt jacket coat dress sundress shorts pants jeans trunks hat cap helmet uniform suit wetsuit "
    "swimsuit outfit sweater sweatshirt top skirt clothes vest hoodie costume shoes boots clothed robe bikini jersey",
    "thing": "ball frisbee toy bike bicycle motorcycle motorbike car truck surfboard board snowboard umbrella kayak "
    "boat slide swing object flag balloon stick bus kite",
}
_HEADS = {word: name for name, words in _THINGS.items() for word in words.split()} | _KIND_OF | _PLURALS

_ENGLISH = {
    "place snow": "snow snowy",
    "place beach": "beach sand sandy shore seashore dune",
    "place water": "water lake river ocean sea pond stream creek pool wave surf puddle fountain sprinkler waterfall",
    "place grass": "grass grassy field lawn yard meadow garden park backyard",
    "place road": "street road sidewalk pavement city crosswalk path alley",
    "place track": "track racetrack",
    "place woods": "forest wood wooded leave",
    "place rock": "mountain cliff rock rocky mountainside peak",
    "place indoors": "room indoor indoors kitchen bed couch sofa office stage restaurant bar classroom floor carpet",
    "place playground": "playground",
}
_CHINESE = {
    "place snow": "雪",
    "place beach": "沙滩 海滩 海边 沙地 沙子 岸",
    "place water": "水 湖 河 海里 海中 海面 海浪 泳池 溪 池",
    "place grass": "草 田野 公园 院子 花园",
    "place road": "街 马路 公路 道路 人行道 路边 路上",
    "place track": "赛道 跑道",
    "place woods": "树林 森林 林中",
    "place rock": "山 岩 悬崖 石",
    "place indoors": "室内 屋 房间 厨房 床 沙发 舞台 餐厅 教室 地板",
    "place playground": "游乐 操场",
}
_BY_WORD: dict[str, list[str]] = {}
for _statement, _words in _ENGLISH.items():
    for _word in _words.split():
        _BY_WORD.setdefault(_word, []).append(_statement)
        _BY_WORD.setdefault(f"{_word}s", []).append(_statement)
_BY_CHARACTERS = [(_part, _statement) for _statement, _parts in _CHINESE.items() for _part in _parts.split()]

_HAN_NUMBERS = {"一": 1, "两": 2, "二": 2, "双": 2, "三": 3} | dict.fromkeys("四五六七八九十几数群众些", _MOST)
_HAN_COUNT = re.compile(
    f"([{''.join(_HAN_NUMBERS)}])[个個只隻条名位头匹对群]?[^，。、一两二三四五六七八九十]{{0,8}}?"
    "(?:(狗|犬)|(猫|马|牛|羊|鸟|鸭|象|熊|猴)|(人|男|女|孩|童|婴|者|员|手))"
)
_HAN_COLOURS = {"红": "red", "橙": "orange", "黄": "yellow", "绿": "green", "青": "green", "蓝": "blue", "紫": "purple"}
_HAN_COLOURS |= {"粉": "pink", "白": "white", "黑": "black", "棕": "brown", "褐": "brown", "灰": "gray", "金": "yellow"}
_HAN_COLOUR = re.compile(
    f"([{''.join(_HAN_COLOURS)}](?:[色白黑黄棕灰相间和]*))[的]?[^，。、穿]{{0,3}}?"
    "(?:(狗|犬)|(猫|马|牛|羊|鸟)|(衣|衫|裤|裙|帽|服|外套|夹克|背心|头盔|装)|(球|车|飞盘|玩具|伞|船|板))"
)
_KINDS = ("dog", "animal", "person")
_COLOURED = ("dog", "animal", "clothes", "thing")


def list_statements(text: str) -> frozenset[str]:
    """Returns the statements of a text, each as "group value"."""
    pieces = _PIECE.findall(unicodedata.normalize("NFKC", text).casefold())
    words = [piece for piece in pieces if not _HAN_RUN.match(piece)]
    found = {statement for word in words for statement in _BY_WORD.get(word, ())}
    found.update(_english_counts(words), _english_colours(words))
    for run in (piece for piece in pieces if _HAN_RUN.match(piece)):
        found.update(statement for part, statement in _BY_CHARACTERS if part in run)
        found.update(_chinese_statements(run))
    return frozenset(found)


def _english_counts(words: Sequence[str]) -> Iterator[str]:
    counts: dict[str, int] = {}
    for place, word in enumerate(words):
        kind = _KIND_OF.get(word) or _PLURALS.get(word)
        if kind is None or (place and words[place - 1] in _NUMBERS and word in counts):
            continue
        number = 1
        if word in _PLURALS:
            number = next((_NUMBERS[one] for one in words[max(place - 4, 0) : place][::-1] if one in _NUMBERS), -1)
        counts[kind] = -1 if number < 0 or counts.get(kind, 0) < 0 else min(counts.get(kind, 0) + number, _MOST)
    yield from (statement for kind, number in counts.items() for statement in _count_statements(kind, number))


def _count_statements(kind: str, number: int) -> list[str]:
    """Returns the counts that a number allows; -1: two or more."""
    return [f"count {kind} {one}" for one in (range(2, _MOST + 1) if number < 0 else [min(number, _MOST)])]


def _english_colours(words: Sequence[str]) -> Iterator[str]:
    place = 0
    while place < len(words):
        colours: list[str] = []
        start = place
        while place < len(words) and (words[place] in _COLOURS or (colours and words[place] in _BETWEEN_COLOURS)):
            colours += [_COLOURS[words[place]]] if words[place] in _COLOURS else []
            place += 1
        if colours:
            head = next((_HEADS[one] for one in words[place : place + 3] if one in _HEADS), None)
            head = "clothes" if start and words[start - 1] in _CLAD else head
            yield from _colour_statements(head, colours)
        place += not colours


def _colour_statements(head: str | None, colours: Sequence[str]) -> list[str]:
    coats = head in ("dog", "animal")
    known = [_COATS.get(one, one) if coats else one for one in colours]
    return [f"colour {head} {one}" for one in known] if head in _COLOURED else []


def _chinese_statements(run: str) -> Iterator[str]:
    counts: dict[str, int] = {}
    for number, *kinds in _HAN_COUNT.findall(run):
        kind = next(name for name, part in zip(_KINDS, kinds, strict=True) if part)
        counts[kind] = min(counts.get(kind, 0) + _HAN_NUMBERS[number], _MOST)
    for kind, count in counts.items():
        yield from _count_statements(kind, count)
    for colours, *heads in _HAN_COLOUR.findall(run):
        head = next(name for name, part in zip(_COLOURED, heads, strict=True) if part)
        yield from _colour_statements(head, [_HAN_COLOURS[one] for one in colours if one in _HAN_COLOURS])


class StatementIndex:
    """The statements of the captions of every query and answer, compared for many pairs at once."""

    def __init__(self, answers: AnswerIndex) -> None:
        stated = [list_statements(text) for text in answers.texts]
        values = sorted({statement for some in stated for statement in some})
        place = {statement: number for number, statement in enumerate(values)}
        self._of_query = np.zeros((len(stated), len(values)), dtype=bool)
        for row, some in enumerate(stated):
            self._of_query[row, [place[statement] for statement in some]] = True
        caption, answer = answers.caption_answer_pairs()
        members = MemberIndex(answer, answers.count)
        self._of_answer = np.zeros((answers.count, len(values)), dtype=np.float32)
        np.add.at(self._of_answer, answer, self._of_query[caption].astype(np.float32))
        self._of_answer /= np.maximum(members.sizes, 1)[:, None]
        self._columns = {
            group: np.flatnonzero([value.rpartition(" ")[0] == group for value in values])
            for groups in CONTRADICTIONS.values()
            for group in groups
        }

    def measure(self, query: RowIndices, answer: RowIndices) -> dict[str, FloatArray]:
        """Returns each contradiction (n,) of the pairs, 0 to 1: how much larger the share of the image's captions is
        that state another value than the share that states the query's."""
        return {
            name: np.max([self._contradiction(group, query, answer) for group in groups], axis=0)
            for name, groups in CONTRADICTIONS.items()
        }

    def _contradiction(self, group: str, query: RowIndices, answer: RowIndices) -> FloatArray:
        columns = self._columns[group]
        if not len(columns) or not len(query):
            return np.zeros(len(query))
        wanted, known = self._of_query[:, columns][query], self._of_answer[:, columns][answer]
        other = np.where(wanted, 0, known).max(axis=1)
        if group in _ANY_FITS:
            lacking = np.clip(other - np.where(wanted, known, 0).max(axis=1), 0, 1)
        else:
            excess = np.clip(other[:, None] - known, 0, 1)
            lacking = np.where(wanted, excess, 0).sum(axis=1) / np.maximum(wanted.sum(axis=1), 1)
        result: FloatArray = np.where(wanted.any(axis=1), lacking, 0).astype(np.float64)
        return result
