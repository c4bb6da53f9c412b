"""The words of a query: labels joined, or a sentence, in Chinese and English."""

from __future__ import annotations

from builders.precision.tag_tree import LabelConcept
from prompts import PromptTemplate


def format_query_text(concepts: list[LabelConcept], language: str, style: str, sentence: PromptTemplate) -> str:
    """“人&摩托车&小汽车” (word) or “一张人和摩托车和小汽车的图片” (sentence), as the seed article writes them; in
    English with the article each name needs: “a picture of a person, an SUV and bread”."""
    if style == "word":
        return "&".join(concept.name(language) for concept in concepts)
    if language == "zh":
        return sentence.fill(labels="和".join(concept.zh for concept in concepts))
    phrases = [f"{concept.article} {concept.en}".strip() for concept in concepts]
    listed = phrases[0] if len(phrases) == 1 else f"{', '.join(phrases[:-1])} and {phrases[-1]}"
    return sentence.fill(labels=listed)
