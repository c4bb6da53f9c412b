"""The sample album's captions and what they are true of, without a picture drawn."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pandas as pd

from builders.sample_album.caption_truth import BLOCK, claims_of, satisfies
from builders.sample_album.captions import caption_en, caption_zh
from builders.sample_album.records import Claims, Requirement
from builders.sample_album.scene_plan import ScenePlan, plan_scene


@dataclass(frozen=True)
class Album:
    """Tables in one language; `fits`: query_id to all pictures of which its caption is true; `described`: for every
    picture a text that names all that is in it."""

    queries: pd.DataFrame
    images: pd.DataFrame
    qrels: pd.DataFrame
    fits: dict[str, set[str]]
    described: pd.DataFrame

    def shared(self) -> set[str]:
        return {query for query, pictures in self.fits.items() if len(pictures) > 1}


def read_album(language: str, seed: int = 0) -> Album:
    plans = [plan_scene(seed, index) for index in range(BLOCK)]
    names = [f"img_{plan.index:04}" for plan in plans]
    texts, described, fits = [], [], {}
    for plan, name in zip(plans, names, strict=True):
        claims = claims_of(seed, plan.index)
        words = random.Random(f"{seed}/words/{plan.index}")
        caption = {"zh": caption_zh(claims, words), "en": caption_en(claims, words)}
        texts.append(caption[language])
        write = caption_zh if language == "zh" else caption_en
        described.append(write(_all_of(plan), random.Random(0)))
        fits[name.replace("img", "q")] = {
            other
            for other, scene in zip(names, plans, strict=True)
            if satisfies(claims, scene.place, scene.light, scene.facts)
        }
    return Album(
        pd.DataFrame({"query_id": list(fits), "text": texts, "language": language}),
        pd.DataFrame({"image_id": names, "duplicate_group": None}),
        own(list(fits), names),
        fits,
        pd.DataFrame({"image_id": names, "text": described}),
    )


def own(queries: list[str], images: list[str]) -> pd.DataFrame:
    """Judgments: each query with its own picture."""
    frame = pd.DataFrame({"query_id": queries, "image_id": images, "relevance": 1})
    return frame.assign(judged_by="caption", evidence=None)


def _all_of(plan: ScenePlan) -> Claims:
    required = []
    for label in dict.fromkeys(label for label, _, _ in plan.facts):
        own_kind = [(colour, count) for one, colour, count in plan.facts if one == label]
        required.append(Requirement(label, None, sum(count for _, count in own_kind)))
        required += [Requirement(label, colour, count) for colour, count in own_kind]
    return Claims(plan.place, plan.light, tuple(required))
