"""The answer in a model's reply, without its reasoning, later turns, and marks of image regions.

Model families wrap the answer in their own marks, and servers leave them in the text. The marks differ, but their
grammar is the same: a mark is a name in brackets, `<name>`, `</name>`, `<|name|>`, `<|name>`, `<name|>`, `[NAME]` or
`【name】`, also with full-width or triangular brackets. The words of its name show what it begins or ends:

- **reasoning**: `<think>` (Qwen, DeepSeek; often the end alone), `[THINK]` (Mistral), `◁think▷` (Kimi), `<seed:think>`,
  `<|START_THINKING|>` (Cohere), `<|begin_of_thought|>`, `<unused94>thought` (Gemma), channels other than `final`
  (`<|channel|>analysis<|message|>` of harmony, `<|channel>thought` of Gemma);
- **an answer**: `<answer>`, `<CONCLUSION>`, `<|begin_of_solution|>`, `<|channel|>final<|message|>`;
- **a turn**: `<|im_start|>user` (ChatML), `<start_of_turn>model` (Gemma), `<|start_header_id|>` (Llama), `[INST]`,
  `<|user|>` (GLM), `<｜User｜>` (DeepSeek), `</s>`, or a role before a colon at the start of a line;
- **a region**: `<box>`, `<ref>`, `<|box_start|>`, `<loc_12>` (Florence), `<patch_index_0044>` (Kosmos),
  `[x1, y1, x2, y2]`.

Every other mark stays, so that a rule for the kind of text can reject it. Patterns are bounded, so that
the time grows with the length of a reply and no faster.
"""

import re
from dataclasses import dataclass, field
from typing import Literal


def _split_words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_HAN = "\u3400-\u9fff\uf900-\ufaff"
# One character for another, so that places in the plain text are places in the reply.
_PLAIN = str.maketrans("＜＞◁▷⟨⟩〈〉｜／［］【】▁＿", "<><><><>|/[][]__") | {
    n: n - 0xFEE0 for n in range(0xFF21, 0xFF5B)
}
_MARK = re.compile(
    rf"<(?P<before>[/|]{{0,2}})\s?(?P<name>[A-Za-z_{_HAN}][\w:.-]{{0,40}}(?: [\w:.-]{{1,20}}){{0,2}})"
    r"(?P<attributes>\s[^<>]{1,200})?\s?(?P<after>[/|]{0,2})>"
    rf"|\[(?P<slash>/?)(?P<square>[A-Za-z{_HAN}][\w ]{{1,30}})\]"
)
_WORD = re.compile(rf"[a-z]+|[{_HAN}]+")
_THOUGHT = re.compile(
    r"think\w*|thought\w*|reason(?:ing|s)?\b|reflect\w*|analy[sz]\w*|ponder\w*|deliberat\w*|scratch_?pad|cot\b"
    r"|rationale|monolog\w*|planning|brainstorm\w*|contemplat\w*|explanation|justification"
    r"|思考|思路|思维|思索|推理|分析|理由|依据|解释|独白"
)
_ANSWER = re.compile(
    r"answers?\b|responses?\b|solution|final\b|outputs?\b|conclusion|results?\b|reply\b|captions?\b|descriptions?\b"
    r"|答案|回答|答复|输出|结论|结果|描述|图说|标题"
)
_OWN_ROLES = _split_words("assistant model bot ai gpt chatgpt 助手 机器人 模型")
_OTHER_ROLES = _split_words("user human system tool observation developer inst instruction 用户 人类 系统 提问者")
_TURN_WORDS = _split_words(
    "im start end header id eot eom eos bos endoftext endofprompt turn begin of text sentence return message sep s "
    "channel call constrain eod end_of_turn"
)
_REGION_WORDS = _split_words(
    "box bbox boxes ref quad point points loc seg patch index object objects grounding phrase delimiter delim det "
    "region roi coord coords coordinate coordinates mask poly polygon multi"
)
_HELPERS = _split_words("start end begin of the no")
_CHANNEL_NAME = re.compile(r"\s{0,3}([A-Za-z_]{1,20})[^\n<]{0,60}")
_ROLE_NAME = re.compile(r"\s{0,3}([A-Za-z]{1,20})\b")

# Marks of a server that drops the special tokens of harmony: "analysisThe user …assistantfinalA cat".
_BARE_CHANNELS = re.compile(r"assistant\s{0,2}final(?=\W|[A-Z]|[^\x00-\x7f])", re.S)
_BARE_ANALYSIS = re.compile(rf"\s{{0,9}}(?:analysis|commentary)(?=[A-Z{_HAN}]|\s+[A-Z{_HAN}])")

_OWN = r"assistant|ai|bot|model|gpt|chatgpt|response|助手|机器人|模型"
_OTHERS = r"user|human|system|instruction|question|用户|人类|系统|问题"
_ROLE = re.compile(
    rf"(?im)^[ \t>*#_-]{{0,12}}(?:(?P<own>{_OWN})|(?P<other>{_OTHERS}))"
    r"[ \t*_]{0,4}\d{0,2}[ \t*_]{0,4}(?:[:：][ \t*_]{0,4}|$)"
    r"|(?<=[.!?。！？])[ \t]{1,4}(?:(?P<own2>ASSISTANT|Assistant|助手)|(?P<other2>USER|User|HUMAN|Human|用户))"
    r"[:：][ \t]{0,4}"
)

# Labels of the parts of a reply: at the start of a line, or after the end of a sentence.
_LEAD = (
    r"(?:(?:here(?:'s|’s)?|is|are|the|a|an|my|your|this|our|its|own|final|full|short|brief|detailed|internal|initial"
    r"|visual|image|picture|photo|step|by|step-by-step|chain|of|suggested|possible|search|第?[一二三四\d]{1,2}步|以下"
    r"|下面|这|是|为|我|我们|你|您|的|最终|最后|图像|图片|画面|照片|视觉|逻辑|详细|简要|简短|具体|内部|中文|英文"
    r"|搜索|检索)[ \t]{0,2}){0,9}"
)
_THOUGHT_LABEL = (
    r"(?:think(?:ing)?|thoughts?|reasoning|reflections?|analysis|explanation|rationale|justification|scratchpad|planning"
    r"|brainstorm(?:ing)?|思考|思路|思维|推理|分析|理由|依据|解释|内心独白)"
    r"(?:过程|步骤|如下|链|内容|[ \t](?:process|steps?|chain|section|trace|summary))?"
    r"(?:[ \t][^\s:：。，,.!?*]{1,14}){0,8}"
)
_ANSWER_LABEL = (
    r"(?:answers?|responses?|solution|final|outputs?|conclusion|results?|reply|captions?|descriptions?|query"
    r"|答案|回答|答复|输出|结论|结果|描述|图说)(?:如下)?"
)
_LABELS = {
    kind: re.compile(
        rf"(?im)^[ \t>*#_•\d.)(（\[【「-]{{0,12}}{_LEAD}(?:{label})"
        r"[ \t*_)）\]】」]{0,6}[:：][ \t*_]{0,4}"
        rf"|^[ \t]{{0,4}}(?:[#*_>【\[]{{1,6}}[ \t]{{0,2}}{_LEAD})?(?:{label})"
        r"[ \t*_)）\]】」]{0,6}(?=\n\s{0,9}\S)"
        rf"|(?:(?<=[。！？!?])|(?<=[.!?][ \t]))[ \t]{{0,4}}{_LEAD}(?:{label})"
        r"[ \t]{0,2}[:：][ \t]{0,4}"
    )
    for kind, label in (("thought", _THOUGHT_LABEL), ("answer", _ANSWER_LABEL))
}
_TRAILER = re.compile(
    r"(?im)^[ \t>*#_(（【-]{0,8}(?:notes?|word count|character count|keywords?|tags?|注|注意|备注|字数|关键词|标签)"
    r"[ \t*_】]{0,4}[:：]"
)

_NUMBER = r"[-+]?\d{1,5}(?:\.\d{1,6})?"
_AXIS = r"(?:(?:[xywh][0-9]?|left|top|right|bottom|width|height|[xy]_?(?:min|max))\s{0,2}[=:]\s{0,2})?"
_SEPARATOR = r"(?:\s{0,3}[,，;；]\s{0,3}|\s{1,3})"
_GROUP = re.compile(
    rf"[\[(（{{<【]\s{{0,3}}({_AXIS}{_NUMBER}(?:{_SEPARATOR}{_AXIS}{_NUMBER}){{1,40}})\s{{0,3}}[\])）}}>】]"
)
_NUMBERS = re.compile(_NUMBER)
_NUMERIC_TAG = re.compile(r"<\|?/?(?:[a-z_]{0,20}?_?\d{1,5})\|?>", re.I)
_EMPTY_BRACKETS = re.compile(r"[\[(（{<【][\s,，;；]{0,20}[\])）}>】]")
_BETWEEN_GROUPS = re.compile(r"[\s,，;；]*")
_SPACES = re.compile(r"(?<=\S)[ \t]{2,}")
_SPACE_BEFORE = re.compile(r"[ \t]+(?=[,.;:!?，。；：！？、])")


@dataclass(frozen=True, slots=True)
class ReplyAnswer:
    """The answer of a reply; `text` is '' where `is_only_reasoning`: the model thought, and the answer is missing."""

    text: str
    is_only_reasoning: bool = False


@dataclass(slots=True)
class _Turn:
    """A turn of the conversation: its pieces of text in order, each plain, a thought, or marked as the answer."""

    is_own: bool
    pieces: list[tuple[Literal["plain", "thought", "answer"], str]] = field(default_factory=list)

    def end_thought(self, is_begun: bool) -> None:
        """End a thought; without a beginning, all that came before is the thought."""
        if not is_begun:
            self.pieces = [("thought", text) for _, text in self.pieces]

    def answer(self) -> str:
        marked = [text for kind, text in self.pieces if kind == "answer" and _has_words(text)]
        if marked:
            return marked[-1]
        thoughts = [place for place, (kind, _) in enumerate(self.pieces) if kind == "thought"]
        if not thoughts:
            return "".join(text for _, text in self.pieces)
        after = "".join(text for kind, text in self.pieces[thoughts[-1] :] if kind == "plain")
        return after if _has_words(after) else "".join(text for kind, text in self.pieces[: thoughts[0]])


def read_answer(raw: str) -> ReplyAnswer:
    """Return the answer of a reply by its marks and turns: that of the first turn of the model that has one. A thought
    that has no end hides what follows it."""
    if bare := list(_BARE_CHANNELS.finditer(raw)):
        raw = raw[bare[-1].end() :]
    elif _BARE_ANALYSIS.match(raw):
        return ReplyAnswer("", True)
    turns = _split_turns(raw)
    for turn in turns:
        text = turn.answer()
        if turn.is_own and _has_words(text):
            own, _ = cut_at_next_turn(text)
            return ReplyAnswer(own)
    has_thought = any(kind == "thought" for turn in turns for kind, _ in turn.pieces)
    own_texts = [turn.answer() for turn in turns if turn.is_own]
    return ReplyAnswer("" if has_thought else "".join(own_texts), has_thought)


def read_labelled_answer(text: str) -> ReplyAnswer:
    """Return the answer of a text whose parts have labels, such as "思考过程：… 最终答案：…" or a heading
    "Caption": what follows the last label of an answer after a label of reasoning, or what precedes reasoning and
    notes."""
    thoughts = [match.span() for match in _LABELS["thought"].finditer(text)]
    answers = [match.span() for match in _LABELS["answer"].finditer(text)]
    answers = [span for span in answers if not any(begin <= span[0] < end for begin, end in thoughts)]
    if thoughts:
        first = thoughts[0][0]
        later = [end for begin, end in answers if begin > first and _has_words(text[end:])]
        if later:
            return read_labelled_answer(text[later[-1] :])
        before = text[:first]
        return ReplyAnswer(before) if _has_words(before) else ReplyAnswer("", True)
    if answers and _has_words(text[: answers[0][0]]) and _has_words(text[answers[0][1] :]):
        return ReplyAnswer(text[answers[0][1] :])
    trailer = _TRAILER.search(text)
    return ReplyAnswer(text[: trailer.start()] if trailer and _has_words(text[: trailer.start()]) else text)


def cut_at_next_turn(text: str) -> tuple[str, bool]:
    """Return the text of the model's first turn, by roles before a colon or alone on a line, and whether anything was
    cut."""
    roles = list(_ROLE.finditer(text))
    if not roles:
        return text, False
    starts = [(0, 0, True), *((match.start(), match.end(), bool(match["own"] or match["own2"])) for match in roles)]
    ends = [begin for begin, _, _ in starts[1:]] + [len(text)]
    for (_, begin, is_own), end in zip(starts, ends, strict=True):
        if is_own and _has_words(text[begin:end]):
            return text[begin:end], True
    first = roles[0]  # a question alone, as a prompt may ask for
    return (text[first.end() :], False) if len(roles) == 1 else ("", True)


def strip_regions(text: str) -> str:
    """Remove marks and coordinates that tie words to regions of the image; the words stay. Numbers in brackets are
    coordinates where there are four or more, several pairs in a row, or numbers as large or as fine as those of pixels.
    """
    plain = text.translate(_PLAIN)
    spans = [match.span() for match in _MARK.finditer(plain) if _is_region(match)]
    spans += [match.span() for match in _NUMERIC_TAG.finditer(plain)]
    text, was_marked = _without(text, spans), bool(spans)
    while True:
        groups = list(_GROUP.finditer(text))
        spans = [
            group.span()
            for number, group in enumerate(groups)
            if was_marked or _has_coordinates(group[1]) or _has_neighbour(text, groups, number)
        ]
        if not spans:
            break
        was_marked = True
        text = _without(text, spans)
    if not was_marked:
        return text
    while (emptied := _without(text, [match.span() for match in _EMPTY_BRACKETS.finditer(text)])) != text:
        text = emptied
    return _SPACES.sub(" ", _SPACE_BEFORE.sub("", text))


def _has_coordinates(numbers: str) -> bool:
    found = _NUMBERS.findall(numbers)
    return len(found) >= 4 or any("." in number or len(number.lstrip("-+")) >= 3 for number in found)


def _has_neighbour(text: str, groups: list[re.Match[str]], number: int) -> bool:
    pairs = (groups[at : at + 2] for at in (number - 1, number) if 0 <= at < len(groups) - 1)
    return any(bool(_BETWEEN_GROUPS.fullmatch(text[one.end() : two.start()])) for one, two in pairs)


def _without(text: str, spans: list[tuple[int, int]]) -> str:
    """Return the text without the spans; words of other scripts than Chinese stay apart."""
    pieces, place, joined = [], 0, list[tuple[int, int]]()
    for begin, end in sorted(spans):
        if joined and _BETWEEN_GROUPS.fullmatch(text[joined[-1][1] : begin]):
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        elif not joined or begin >= joined[-1][1]:
            joined.append((begin, end))
    for begin, end in joined:
        pieces.append(text[place:begin])
        around = text[max(begin - 1, 0) : begin] + text[end : end + 1]
        pieces.append(" " if len(around) == 2 and around.isascii() and around.isalnum() else "")
        place = end
    return "".join([*pieces, text[place:]])


def _words_of(mark: re.Match[str]) -> set[str]:
    return set(_WORD.findall((mark["name"] or mark["square"]).casefold().replace("_", " ")))


def _is_region(mark: re.Match[str]) -> bool:
    words = _words_of(mark) - _HELPERS
    is_paragraph = mark["name"] in ("p", "P") or words == {"phrase"}
    return mark["name"] is not None and bool(words) and (is_paragraph or words <= _REGION_WORDS)


def _split_turns(raw: str) -> list[_Turn]:
    plain = raw.translate(_PLAIN)
    marks = list(_MARK.finditer(plain))
    turns, place = [_Turn(is_own=True)], 0
    kind: Literal["plain", "thought", "answer"] = "plain"
    ends_of_thought = [mark.start() for mark in marks if _classify(mark) == ("thought", True)]
    for mark in marks:
        meaning, is_end = _classify(mark)
        if not meaning or mark.start() < place:
            continue
        turns[-1].pieces.append((kind, raw[place : mark.start()]))
        place = mark.end()
        if meaning == "thought":
            if is_end:
                turns[-1].end_thought(is_begun=kind == "thought")
            kind = "plain" if is_end else "thought"
        elif meaning == "answer":
            if kind != "thought" or not any(end > place for end in ends_of_thought):
                kind = "plain" if is_end else "answer"
        elif meaning == "channel":
            name = _CHANNEL_NAME.match(plain, place)
            place = name.end() if name and not is_end else place
            if is_end:
                turns[-1].end_thought(is_begun=kind == "thought")
            kind = "plain" if is_end else "answer" if name and name[1] == "final" else "thought"
        elif meaning == "unused":
            name = _ROLE_NAME.match(plain, place)
            is_thought = bool(name and _THOUGHT.fullmatch(name[1].casefold()))
            turns[-1].end_thought(is_begun=kind == "thought" or is_thought)
            kind = "thought" if is_thought else "plain"
        elif meaning == "role":
            name = _ROLE_NAME.match(plain, place)
            role = name[1].casefold() if name else ""
            is_part = bool(_THOUGHT.fullmatch(role) or _ANSWER.fullmatch(role))
            is_role = is_part or role in _OWN_ROLES | _OTHER_ROLES
            place = name.end() if name and is_role else place
            turns.append(_Turn(role not in _OTHER_ROLES))
            kind = "thought" if _THOUGHT.fullmatch(role) else "plain"
        elif meaning in ("own", "other", "end"):
            turns.append(_Turn(meaning != "other"))
            kind = "plain"
    turns[-1].pieces.append((kind, raw[place:]))
    return turns


def _classify(mark: re.Match[str]) -> tuple[str, bool]:
    """Return the kind of a mark ('': not part of a reply's envelope) and whether it is an end mark."""
    name, words = (mark["name"] or mark["square"]).casefold(), _words_of(mark)
    is_token = mark["name"] is not None and "|" in mark["before"] + mark["after"]
    is_end = "/" in (mark["before"] or "") + (mark["slash"] or "") or "end" in words
    is_end = is_end or (is_token and "|" not in mark["before"])
    if mark["attributes"] and not words <= _REGION_WORDS and not _THOUGHT.search(name) and not _ANSWER.search(name):
        return "", False
    if any(_THOUGHT.fullmatch(word) for word in words):
        return "thought", is_end
    if any(_ANSWER.fullmatch(word) for word in words):
        return "answer", is_end
    if name.startswith("unused"):
        return "unused", False
    if mark["square"] is not None:
        is_role = mark["square"].isupper() or not mark["square"].isascii()
        return (("other" if not is_end else "own"), is_end) if is_role and words & {"inst", "system"} else ("", False)
    if words & _OWN_ROLES:
        return "own", is_end
    if words & _OTHER_ROLES:
        return ("own" if is_end and "inst" in words else "other"), is_end
    if "channel" in words:
        return "channel", is_end
    if name == "message" or words <= {"im", "sep"} or (words <= {"end", "header", "id"} and "header" in words):
        return "skip", False
    if words <= _TURN_WORDS and (is_token or name in ("s", "eos", "bos", "end_of_turn", "start_of_turn")):
        is_start = ("start" in words or (words == {"turn"})) and not is_end
        return ("role" if is_start else "end"), is_end
    return "", False


def _has_words(text: str) -> bool:
    return any(char.isalpha() for char in text)
