"""A reply cut into what the model thought and what it answered, however it dressed the labels up.

Nothing is rewritten but line ends: whatever is read from a part stands in the reply to the letter. Every pattern is
bounded, so that time grows with the reply's length and no faster.
"""

import re
from dataclasses import dataclass

from builders.recall.reply_markup import strip_reasoning

MAX_REPLY_CHARACTERS = 20_000  # characters of a reply that are read
_LINE_END = re.compile(r"<br\s{0,4}/?>|\r\n?|[\v\f\x85\u2028\u2029]", re.IGNORECASE)
_LABEL = re.compile(
    r"(?<![^\W\d_])"  # no letter before: 额外的5个答案： is talk
    r"(?:(?P<thought>思考过程|思考|思路|thoughts?|thinking|reasoning)"
    r"|(?:最终|最后的?|我的|final )?(?:答案|回答|answers?))"
    r"[ \t*_#＃】」』\])）\d]{0,8}(?:[：:]|$)",
    re.IGNORECASE | re.MULTILINE,
)
_DECORATION = " \t\n*_#＃>-.．、)）(（[【「『<0123456789０１２３４５６７８９"


@dataclass(frozen=True, slots=True)
class ReplyPart:
    """An answer and the thought that led to it; `is_labelled`: the model itself called it an answer."""

    thought: str
    answer: str
    is_labelled: bool


def split_reply(reply: str) -> tuple[list[ReplyPart], bool]:
    """The answers of a reply, in order, and whether it is so long that its end is not read. Where labels are, what
    stands before the first one is talk; a thought without an answer is none."""
    text = strip_reasoning(reply)
    is_cut = len(text) > MAX_REPLY_CHARACTERS
    text = _LINE_END.sub("\n", text[:MAX_REPLY_CHARACTERS])
    labels = list(_LABEL.finditer(text))
    if not labels:
        return ([ReplyPart("", text, False)] if text.strip() else []), is_cut
    parts, thought = [], ""
    ends = [label.start() for label in labels[1:]] + [len(text)]
    for label, end in zip(labels, ends, strict=True):
        content = _without_next_label(text[label.end() : end])
        if label["thought"]:
            thought = content
        else:
            parts.append(ReplyPart(thought, content, True))
            thought = ""
    return parts, is_cut


def _without_next_label(text: str) -> str:
    """Without the last lines if they are but the numbering and the marks before the label that follows."""
    start = text.rfind("\n")
    while start >= 0 and not text[start:].strip(_DECORATION):
        text = text[:start]
        start = text.rfind("\n")
    return text
