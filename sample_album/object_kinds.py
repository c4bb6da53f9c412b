"""The kinds of objects that the album draws: their official labels, their words, their colours and sizes."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ObjectKind:
    """`size`: height beside other things in the foreground, as a share of the picture's mean side."""

    key: str
    category_id: int  # id in Objects365 v2
    label: str  # official name in Objects365 v2, misspellings included
    zh: str
    measure_word_zh: str
    singular_en: str
    plural_en: str
    size: float
    colours: tuple[str, ...]
    mentions_colour: bool = True


def _kind(
    key: str,
    category: int,
    label: str,
    zh: str,
    names: str,
    size: float,
    colours: str,
    *,
    colour_unmentioned: bool = False,
) -> ObjectKind:
    measure, one, many = names.split("|")
    return ObjectKind(
        key, category, label, zh, measure, one, many, size, tuple(colours.split()), not colour_unmentioned
    )


_ALL = (
    _kind(
        "person",
        1,
        "Person",
        "人",
        "个|person|people",
        0.56,
        "red orange yellow green blue purple pink white",
    ),
    _kind("dog", 93, "Dog", "狗", "只|dog|dogs", 0.27, "brown white black grey"),
    _kind("cat", 140, "Cat", "猫", "只|cat|cats", 0.27, "orange white black grey"),
    _kind("bird", 57, "Wild Bird", "鸟", "只|bird|birds", 0.095, "white blue black"),
    _kind("sheep", 100, "Sheep", "羊", "只|sheep|sheep", 0.27, "white black brown"),
    _kind("car", 6, "Car", "轿车", "辆|sedan|sedans", 0.21, "red blue yellow green white"),
    _kind("suv", 35, "SUV", "越野车", "辆|SUV|SUVs", 0.27, "red blue green white black orange"),
    _kind("bus", 56, "Bus", "公交车", "辆|bus|buses", 0.30, "red yellow green blue"),
    _kind("bicycle", 47, "Bicycle", "自行车", "辆|bicycle|bicycles", 0.32, "red blue green orange"),
    _kind("boat", 22, "Boat", "划艇", "艘|rowing boat|rowing boats", 0.13, "red blue green white"),
    _kind("sailboat", 73, "Sailboat", "帆船", "艘|sailboat|sailboats", 0.25, "red blue green orange"),
    _kind(
        "airplane",
        115,
        "Airplane",
        "飞机",
        "架|airplane|airplanes",
        0.28,
        "red blue green orange",
        colour_unmentioned=True,
    ),
    _kind(
        "hotair_balloon",
        229,
        "Hotair ballon",
        "热气球",
        "个|hot air balloon|hot air balloons",
        0.24,
        "red blue yellow purple orange",
    ),
    _kind("umbrella", 40, "Umbrella", "伞", "把|umbrella|umbrellas", 0.50, "red blue yellow green orange"),
    _kind("kite", 155, "Kite", "风筝", "只|kite|kites", 0.20, "red blue purple green orange"),
    _kind("bench", 25, "Bench", "长椅", "张|bench|benches", 0.28, "brown green blue red"),
    _kind("couch", 51, "Couch", "沙发", "张|couch|couches", 0.40, "blue green red yellow grey"),
    _kind("chair", 3, "Chair", "椅子", "把|chair|chairs", 0.40, "red blue brown green"),
    _kind("lamp", 7, "Lamp", "落地灯", "盏|floor lamp|floor lamps", 0.60, "yellow red blue white"),
    _kind(
        "potted_plant",
        26,
        "Potted Plant",
        "盆栽",
        "盆|potted plant|potted plants",
        0.38,
        "orange blue white brown",
        colour_unmentioned=True,
    ),
    _kind("vase", 31, "Vase", "花瓶", "个|vase|vases", 0.34, "blue green white purple"),
    _kind("flower", 24, "Flower", "花", "朵|flower|flowers", 0.25, "red pink yellow purple white"),
    _kind("clock", 95, "Clock", "钟", "个|clock|clocks", 0.17, "red blue brown green"),
    _kind(
        "traffic_light",
        41,
        "Traffic Light",
        "红绿灯",
        "个|traffic light|traffic lights",
        0.46,
        "black",
        colour_unmentioned=True,
    ),
    _kind("bottle", 9, "Bottle", "瓶子", "个|bottle|bottles", 0.42, "green blue brown"),
    _kind("cup", 11, "Cup", "杯子", "个|cup|cups", 0.20, "red blue white green yellow"),
    _kind("apple", 83, "Apple", "苹果", "个|apple|apples", 0.20, "red green yellow"),
    _kind("orange", 105, "Orange/Tangerine", "橙子", "个|orange|oranges", 0.19, "orange", colour_unmentioned=True),
    _kind(
        "banana",
        113,
        "Banana",
        "香蕉",
        "把|bunch of bananas|bunches of bananas",
        0.21,
        "yellow",
        colour_unmentioned=True,
    ),
    _kind("cake", 98, "Cake", "蛋糕", "个|cake|cakes", 0.30, "pink white brown yellow"),
    _kind("soccer", 119, "Soccer", "足球", "个|soccer ball|soccer balls", 0.14, "white", colour_unmentioned=True),
    _kind(
        "sneakers",
        2,
        "Sneakers",
        "运动鞋",
        "双|pair of sneakers|pairs of sneakers",
        0.20,
        "red blue green orange",
    ),
    _kind(
        "leather_shoes",
        23,
        "Leather Shoes",
        "皮鞋",
        "双|pair of leather shoes|pairs of leather shoes",
        0.19,
        "black brown",
    ),
    _kind(
        "other_shoes",
        4,
        "Other Shoes",
        "布鞋",
        "双|pair of canvas slip-ons|pairs of canvas slip-ons",
        0.18,
        "red blue pink purple",
    ),
    _kind(
        "slippers",
        46,
        "Slippers",
        "拖鞋",
        "双|pair of slippers|pairs of slippers",
        0.15,
        "blue pink green grey",
    ),
    _kind("sandals", 52, "Sandals", "凉鞋", "双|pair of sandals|pairs of sandals", 0.15, "red blue brown green"),
    _kind("guitar", 60, "Guitar", "吉他", "把|guitar|guitars", 0.48, "orange brown red"),
)
OBJECT_KINDS: dict[str, ObjectKind] = {kind.key: kind for kind in _ALL}
KIND_BY_LABEL: dict[str, ObjectKind] = {kind.label: kind for kind in _ALL}

COLOUR_ZH: dict[str, str] = {
    "red": "红色",
    "orange": "橙色",
    "yellow": "黄色",
    "green": "绿色",
    "blue": "蓝色",
    "purple": "紫色",
    "pink": "粉色",
    "white": "白色",
    "black": "黑色",
    "brown": "棕色",
    "grey": "灰色",
}
