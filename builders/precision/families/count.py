"""Numbers: "exactly two dogs", "three or more bottles". An image with another number of the objects is a near miss, so
that each text says "exactly": three dogs are also two dogs.
"""

from collections.abc import Iterator

from builders.precision.families.box_evidence import BoxWorld, FamilyQuestion, FamilyRules, Phrases, QueryFamily
from builders.precision.tag_tree import LabelConcept

# Measure words by Chinese name; a label without one has no Chinese question.
_MEASURE_WORDS = {
    "个": "人 瓶子 杯子 酒杯 碗 苹果 橙子 披萨 甜甜圈 三明治 热狗 花瓶 球 背包 手提包 行李箱 时钟 马桶 水槽 遥控器 "
    "键盘 鼠标 泰迪熊 红绿灯 消防栓 停止标志 停车计时器 飞盘 风筝 棒球手套 滑板 蛋糕 烤面包机 吹风机",
    "只": "狗 猫 鸟 羊 熊 长颈鹿 鸭子 鸡 兔子 猴子 蝴蝶",
    "头": "牛 大象 猪",
    "匹": "马 斑马",
    "辆": "小汽车 自行车 摩托车 公交车 卡车 汽车 SUV",
    "列": "火车",
    "架": "飞机",
    "艘": "船",
    "把": "椅子 伞 叉子 刀 勺子 剪刀 牙刷",
    "张": "床 餐桌 沙发 长椅",
    "条": "领带",
    "根": "香蕉 胡萝卜 棒球棒",
    "块": "冲浪板 单板滑雪板",
    "支": "网球拍",
    "本": "书",
    "部": "手机",
    "台": "电视 笔记本电脑 微波炉 烤箱 冰箱",
    "盆": "盆栽",
}
MEASURE_WORD = {name: word for word, names in _MEASURE_WORDS.items() for name in names.split()}


def find_questions(world: BoxWorld, _rules: FamilyRules) -> Iterator[FamilyQuestion]:
    """Yield for each label that can be counted "exactly two" and "three or more"."""
    for label in world.labels:
        if not world.concepts[label].article:
            continue  # bread, scissors
        evidence = world.evidence(label)
        known = world.is_certain(label)[evidence.image]
        for kind, right, why in (
            ("count/2", evidence.count == 2, "two boxes: {0}"),
            ("count/3+", evidence.count >= 3, "three or more boxes: {0}"),
        ):
            relevant, wrong = evidence.image[known & right], evidence.image[known & ~right]
            yield FamilyQuestion(kind, (label,), relevant, wrong, why, f"not {why}", (label,))


def phrase(kind: str, concepts: list[LabelConcept]) -> Phrases:
    """Return the texts; empty if the plural or the measure word is unknown."""
    (concept,) = concepts
    texts: Phrases = {}
    exact = kind == "count/2"
    if concept.plural:
        texts["en", "word"] = f"{'exactly two' if exact else 'three or more'} {concept.plural}"
        texts["en", "sentence"] = f"a picture of {texts['en', 'word']}"
    if measure := MEASURE_WORD.get(concept.zh):
        least, number = ("正好", "两") if exact else ("至少", "三")
        texts["zh", "word"] = f"{least}{number}{measure}{concept.zh}"
        texts["zh", "sentence"] = f"一张{least}有{number}{measure}{concept.zh}的图片"
    return texts


FAMILY = QueryFamily(find_questions, phrase)
