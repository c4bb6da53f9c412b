"""Replies as chat models dress them up, made with what they truly list; and the same broken in every way."""

import random
from dataclasses import dataclass

ZH = {
    "食物": ["饺子", "意大利面", "汉堡", "炸鸡", "和果子", "三明治", "北京烤鸭", "麻辣香锅"],
    "动物": ["大熊猫", "金鱼", "长颈鹿", "蜗牛", "东北虎", "海豚", "猫头鹰", "变色龙"],
    "交通工具": ["自行车", "高铁", "热气球", "3D打印车", "挖掘机", "三轮车", "帆船", "SUV越野车"],
    "主题公园设施": ["旋转木马", "过山车", "摩天轮", "碰碰车", "海盗船", "跳楼机", "大摆锤", "鬼屋"],
}
EN = {
    "food": ["dumplings", "fried chicken", "sushi", "rice and beans", "shepherd's pie", "t-bone steak"],
    "animals": ["giant panda", "goldfish", "polar bear", "snail", "sea otter", "barn owl"],
    "garden tools": ["rake", "watering can", "wheelbarrow", "hand trowel", "lawn mower", "hose reel"],
    "musical instruments": ["violin", "drum kit", "grand piano", "harp", "bagpipes", "banjo"],
}
BEFORE = {
    "zh": ["", "好的，以下是我的想法：\n\n", "当然可以！\n", "好的\n\n", "根据您的要求，我给出如下结果。\n"],
    "en": ["", "Sure! Here is one more:\n\n", "Of course.\n", "Okay\n\n", "As you asked, I followed the steps.\n"],
}
AFTER = {
    "zh": ["", "\n\n希望这些对您有帮助！", "\n\n以上就是我的答案，如需更多请告诉我。", "\n---\n", "\n\n（完）"],
    "en": [
        "",
        "\n\nI hope this helps!",
        "\n\nLet me know if you need more.",
        "\n---\n",
        "\n\nThese are all visual concepts.",
    ],
}


@dataclass(frozen=True)
class MessyReply:
    """A reply, and what it lists: objects by topic, in order."""

    text: str
    expected: list[tuple[str, list[str]]]


def make_topic_reply(rng: random.Random, language: str) -> MessyReply:
    """One to three answers in the form that the first stage asks for, dressed up."""
    world = ZH if language == "zh" else EN
    topics = rng.sample(sorted(world), rng.choice([1, 1, 1, 2, 3]))
    truth = [(topic, rng.sample(world[topic], rng.randint(3, 6))) for topic in topics]
    style = _TopicStyle(rng, language)
    blocks = [style.block(number, *listed) for number, listed in enumerate(truth, start=1)]
    return MessyReply(_finished(rng, language, rng.choice(["\n\n", "\n"]).join(blocks)), truth)


class _TopicStyle:
    def __init__(self, rng: random.Random, language: str) -> None:
        zh = language == "zh"
        self.zh = zh
        self.mark = rng.choice(["#", "#", "＃", ""])
        self.colon = rng.choice(["：", ":"]) if zh else rng.choice([":", ":", "："])
        self.bold = rng.choice(["", "", "**", "### "])
        self.number = rng.choice(["", "", "{}. ", "{}、", "({}) ", "{}) "])
        self.break_ = rng.choice(["\n", "\n", "\n\n", " " if self.mark else "\n"])
        self.comma = rng.choice(["，", "、", ",", ", ", "，\n"] if zh and self.mark else ["，", "、"] if zh else [", "])
        self.listed = rng.choice(["line", "line", "numbers", "bullets"])
        self.stop = rng.choice(["", "。" if zh else "."])
        self.thinks = rng.choice([True, True, True, False])

    def block(self, number: int, topic: str, objects: list[str]) -> str:
        mark = self.mark
        shown = f"{mark}{topic}{mark}"
        if self.zh:
            thought = f"选择主题{shown}" if mark else f"选择主题：{topic}"
            answer = f"根据{shown}主题，我想出了{mark}物体{mark}{self.colon}"
        else:
            thought = f"choose the topic {shown}"
            answer = f"for the topic {shown}, I came up with these {mark}objects{mark}{self.colon} "
        lines = [self._label("思考" if self.zh else "Thought", number) + thought] if self.thinks else []
        prefix = self.number if not lines else ""
        lines.append(self._label("答案" if self.zh else "Answer", number, prefix) + answer + self._list(objects))
        return self.break_.join(lines)

    def _label(self, word: str, number: int, prefix: str | None = None) -> str:
        before = (self.number if prefix is None else prefix).format(number)
        if self.bold == "### ":
            return f"### {word}{self.colon}"
        return f"{before}{self.bold}{word}{self.bold}{self.colon}{'' if self.zh else ' '}"

    def _list(self, objects: list[str]) -> str:
        marked = [f"{self.mark}{text}{self.mark}" for text in objects]
        if self.listed == "numbers":
            return "\n" + "\n".join(f"{number}. {text}" for number, text in enumerate(marked, start=1))
        if self.listed == "bullets":
            return "\n" + "\n".join(f"- {text}" for text in marked)
        return self.comma.join(marked) + self.stop


def make_object_reply(rng: random.Random, language: str) -> MessyReply:
    """A list in the form that the second stage asks for, dressed up."""
    world = ZH if language == "zh" else EN
    topic = rng.choice(sorted(world))
    objects = rng.sample(world[topic], rng.randint(3, 6))
    number = rng.choice(
        ["{}. ", "{}.", "{}、", "{}．", "({}) ", "（{}）", "{}) ", "{}\\. ", "- ", "* ", "• ", "答案{}：", "**{}. "]
    )
    start = rng.choice([1, 1, 6, 11])
    bold = rng.choice(["", "", "**"]) if "**" not in number else ""
    comment = rng.choice(
        [
            "",
            "",
            "；这是一种常见的东西" if language == "zh" else "; a common thing",
            "（常见）" if language == "zh" else " (common)",
        ]
    )
    close = "**" if number.startswith("**") else ""
    lines = [f"{number.format(start + n)}{bold}{text}{bold}{close}{comment}" for n, text in enumerate(objects)]
    joined = rng.choice(["\n", "\n", "\n\n"]).join(lines)
    if number == "{}. " and not comment and rng.random() < 0.1:
        joined = " ".join(lines)
    return MessyReply(_finished(rng, language, joined), [("", objects)])


def _finished(rng: random.Random, language: str, text: str) -> str:
    whole = rng.choice(BEFORE[language]) + text + rng.choice(AFTER[language])
    return whole.replace("\n", rng.choice(["\n", "\n", "\r\n", "<br/>", "<br>\n"]))


def break_reply(rng: random.Random, text: str, prompt: str) -> str:
    """The reply cut, doubled, shuffled, echoed, or with rubbish in it."""
    at = rng.randrange(len(text) + 1)
    rubbish = rng.choice(
        ["\x00", "\ud83d", "\u202e", "#", "＃", "：", "答案：", "\ufffd", "{}", "%s", "<think>", "</think>", "\t", "𠮷"]
    )
    kinds = [
        text[:at],
        text[at:],
        text[:at] + rubbish * rng.choice([1, 3, 200]) + text[at:],
        text * rng.choice([2, 50]),
        prompt + "\n" + text,
        prompt,
        "".join(rng.sample(text, len(text))),
        "\n".join(rng.sample(text.split("\n"), text.count("\n") + 1)),
        "抱歉，作为一个人工智能语言模型，我无法提供这些内容。",
        text[:at] + "教堂，" * 3000,
    ]
    return rng.choice(kinds)
