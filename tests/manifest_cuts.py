"""Whether a manifest records every cut of the definition that it was built from."""

from collections.abc import Iterator
from typing import Any

# Numbers of a definition by which no item is rejected: sizes, budgets, limits of politeness, samples.
NOT_CUTS = {
    *("seed", "render.size", "select.place_degrees"),
    *("mixes.levels", "mixes.draws", "mixes.near_misses"),
    *("captions.per_image", "captions.min_tokens", "captions.max_tokens", "descriptions.max_tokens", "sizes"),
    *("ambiguity.rivals", "ambiguity.rounds"),
    *(f"{stage}.{name}" for stage in ("topics", "objects") for name in ("rounds", "max_tokens", "calls", "tokens")),
    *("topics.parallel_questions", "objects.per_prompt", "objects.from_people", "objects.from_model", "objects.barren"),
    *("collect.limits.tries", "collect.limits.concurrency", "collect.limits.per_host", "collect.limits.interval"),
}


def unrecorded_cuts(manifest: dict[str, Any]) -> list[str]:
    """The keys of the definition's cuts that the manifest's thresholds leave out, or state with another value."""
    recorded = {record["name"]: record["value"] for record in manifest["thresholds"]}
    configuration = manifest["configuration"]
    without_model = set(NOT_CUTS)
    if not (configuration.get("near_duplicates") or {}).get("embedder"):
        without_model.add("near_duplicates.cosine")
    if "images" in configuration and configuration["images"] is None and not configuration.get("gallery"):
        without_model.add("near_duplicates.distance")
    if not configuration.get("families"):
        without_model |= {f"family_rules.{name}" for name in ("min_images", "cap", "large", "small", "margin")}
    cuts = [(key, value) for key, value in _numbers(configuration) if key not in without_model]
    return [key for key, value in cuts if recorded.get(key) != value]


def _numbers(value: Any, key: str = "") -> Iterator[tuple[str, float]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if name != "options":  # of a backend, which rejects nothing
                yield from _numbers(inner, f"{key}.{name}" if key else name)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield key, value
