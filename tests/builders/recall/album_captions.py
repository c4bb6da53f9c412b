"""The sample album's captions and what they are true of, without a picture drawn."""

import random
from dataclasses import dataclass

import pandas as pd

from sample_album.album_records import CaptionClaims, CaptionRequirement
from sample_album.caption_truth import SCENES_PER_BLOCK, choose_claims, is_true_of
from sample_album.captions import format_caption_en, format_caption_zh
from sample_album.scene_plan import ScenePlan, plan_scene


@dataclass(frozen=True)
class CaptionedAlbum:
    """Tables in one language; `fitting_images`: query_id to all pictures of which its caption is true; `described`: for
    every picture a text that names all that is in it."""

    queries: pd.DataFrame
    images: pd.DataFrame
    qrels: pd.DataFrame
    fitting_images: dict[str, set[str]]
    described: pd.DataFrame

    def shared(self) -> set[str]:
        return {query for query, images in self.fitting_images.items() if len(images) > 1}


def make_captioned_album(language: str, seed: int = 0) -> CaptionedAlbum:
    plans = [plan_scene(seed, index) for index in range(SCENES_PER_BLOCK)]
    names = [f"img_{plan.index:04}" for plan in plans]
    texts, described, fits = [], [], {}
    for plan, name in zip(plans, names, strict=True):
        claims = choose_claims(seed, plan.index)
        rng = random.Random(f"{seed}/words/{plan.index}")
        caption = {"zh": format_caption_zh(claims, rng), "en": format_caption_en(claims, rng)}
        texts.append(caption[language])
        write = format_caption_zh if language == "zh" else format_caption_en
        described.append(write(_all_of(plan), random.Random(0)))
        fits[name.replace("img", "q")] = {
            other
            for other, scene in zip(names, plans, strict=True)
            if is_true_of(claims, scene.place, scene.light, scene.facts)
        }
    return CaptionedAlbum(
        pd.DataFrame({"query_id": list(fits), "text": texts, "language": language}),
        pd.DataFrame({"image_id": names, "duplicate_group": None}),
        source_pairs(list(fits), names),
        fits,
        pd.DataFrame({"image_id": names, "text": described}),
    )


def source_pairs(queries: list[str], images: list[str]) -> pd.DataFrame:
    """Judgments: each query with its own picture."""
    frame = pd.DataFrame({"query_id": queries, "image_id": images, "relevance": 1})
    return frame.assign(judged_by="caption", evidence=None)


def _all_of(plan: ScenePlan) -> CaptionClaims:
    required = []
    for label in dict.fromkeys(label for label, _, _ in plan.facts):
        own_kind = [(colour, count) for one, colour, count in plan.facts if one == label]
        required.append(CaptionRequirement(label, None, sum(count for _, count in own_kind)))
        required += [CaptionRequirement(label, colour, count) for colour, count in own_kind]
    return CaptionClaims(plan.place, plan.light, tuple(required))
