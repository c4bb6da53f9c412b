"""Ten thousand replies, sound, dressed up and broken, from the text to the pools: nothing crashes, every row is booked
once, and what is accepted stands in the reply, is no word of the prompt and was not shown to the model."""

import json
import random
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import prompts
from builders.generated.generation_journal import ReplyRecord, ReplyRow
from builders.generated.object_pools import NoveltyFilter, ObjectPools, ParsedReply
from builders.generated.reply_grammar import TEMPLATE_WORDS, parse_topics
from builders.generated.row_rules import MAX_LENGTH, RowRules, normalize_text
from builders.generated.topic_pools import STRATEGIES, TopicPools
from querytruth.backends.models.reply_envelope import strip_regions
from tests.builders.generated.messy_replies import EN, ZH, break_reply, make_object_reply, make_topic_reply

WORLD = {"zh": ZH, "en": EN}
REFUSAL = re.compile("我无法|I cannot|I can't|sorry", re.IGNORECASE)
COUNT = 10_000


def nothing_alike() -> NoveltyFilter:
    """What is alike is tried elsewhere."""
    return NoveltyFilter(lambda texts: np.zeros((len(texts), 2), np.float32), 0.9)


def rules_of(language: str, prompt: str) -> RowRules:
    text = prompts.load_template(f"{language}/{prompt}").text
    return RowRules(language, MAX_LENGTH[language], text, REFUSAL)


def shown_of(language: str, rng: random.Random) -> dict[str, list[str]]:
    return {topic: rng.sample(objects, 2) for topic, objects in sorted(WORLD[language].items())}


def check(rows: tuple[ReplyRow, ...], reply: str, shown: dict[str, set[str]], rules: RowRules) -> None:
    """`shown`: the objects in the prompt by topic; of a topic that is not there, all of them are shown."""
    for row in rows:
        assert row.text in reply or row.text in strip_regions(reply)
        if row.reason:
            continue
        assert normalize_text(row.text) not in shown.get(row.topic, set().union(*shown.values()))
        assert normalize_text(row.text) not in TEMPLATE_WORDS[rules.language] and not rules.find_rejection_reason(
            row.text
        )
        assert row.topic in reply or row.topic in WORLD[rules.language]


def fuzzed(seed: int) -> tuple[random.Random, str, str, bool]:
    """A reply, its language, and whether the limit cut it; every other one is broken."""
    rng = random.Random(seed)
    language = rng.choice(["zh", "en"])
    reply = (make_topic_reply if rng.random() < 0.5 else make_object_reply)(rng, language).text
    if seed % 2:
        reply = break_reply(rng, reply, prompts.load_template(f"{language}/topics").text)
    return rng, language, reply, rng.random() < 0.2


@pytest.mark.slow
def test_of_ten_thousand_replies_about_topics_no_row_is_invented_or_lost() -> None:
    found: Counter[str] = Counter()
    for seed in range(COUNT):
        rng, language, reply, was_cut = fuzzed(seed)
        samples = shown_of(language, rng)
        by_topic = {topic: set(map(normalize_text, texts)) for topic, texts in samples.items()}
        shown = frozenset[str]().union(*by_topic.values())
        pools, rules = TopicPools(samples), rules_of(language, "topics")
        listed = parse_topics(reply, was_cut)
        rows = pools.classify_rows(listed, rules, shown)
        assert len(rows) == sum(len(one.objects) + bool(one.truncated_item) for one in listed)
        check(rows, reply, by_topic, rules)
        pools.add(ReplyRecord(1, "", "key", "stop", 1, rows))
        found.update(row.reason or "accepted" for row in rows)
    assert found["accepted"] > 15_000 and len(found) > 8, found


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["self_instruct", "visual_elements"])
def test_of_five_thousand_replies_about_objects_no_row_is_invented_or_lost(strategy: str) -> None:
    found: Counter[str] = Counter()
    for seed in range(COUNT // 2):
        rng, language, reply, was_cut = fuzzed(seed)
        samples = shown_of(language, rng)
        topic = rng.choice(sorted(samples))
        shown = frozenset(normalize_text(text) for text in samples[topic])
        pools, rules = ObjectPools(samples, nothing_alike()), rules_of(language, STRATEGIES[strategy].prompt_name)
        listed = STRATEGIES[strategy].parse_reply(reply, was_cut)
        rows = pools.classify_rows([ParsedReply(topic, listed, shown)], rules)[0]
        assert len(rows) == len(listed.objects) + bool(listed.truncated_item)
        check(rows, reply, {topic: set(shown)}, rules)
        found.update(row.reason or "accepted" for row in rows)
    assert found["accepted"] > 2_000 and len(found) > 8, found


@pytest.mark.thorough
def test_what_real_models_wrote_is_judged_without_harm(shared: Callable[[str], Path]) -> None:
    folder = shared("llm_transcripts")
    texts = [path.read_text("utf-8") for path in sorted(folder.rglob("*.md"))]
    texts += [cell for text in texts for cell in text.split("|")]
    for name, key in (("self_instruct_davinci_predictions.jsonl", "response"), ("vlm_zh_gpt4_answers.jsonl", "text")):
        texts += [str(json.loads(line).get(key, line)) for line in (folder / name).read_text("utf-8").splitlines()]
    accepted = 0
    for text in texts:
        language = "zh" if re.search(r"[\u4e00-\u9fff]", text) else "en"
        samples = {topic: objects[:2] for topic, objects in WORLD[language].items()}
        for strategy in (STRATEGIES["self_instruct"], STRATEGIES["visual_elements"]):
            pools = ObjectPools(samples, nothing_alike())
            rules = rules_of(language, strategy.prompt_name)
            rows = pools.classify_rows(
                [ParsedReply(next(iter(samples)), strategy.parse_reply(text, False), frozenset())], rules
            )[0]
            check(rows, text, {}, rules)
            accepted += sum(not row.reason for row in rows)
    assert len(texts) > 1000 and accepted > 500
