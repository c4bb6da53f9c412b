"""What is decided by vectors, in a process of its own: `python -m tests.processor_variants FOLDER MODEL [SEED]`.

Builds a gallery without near-duplicates, a recall set, the verdicts on new objects and an evaluation below FOLDER, and
prints their digests as JSON, and that of the vectors themselves. With a SEED, each coordinate of each vector is
multiplied by 1 + 1e-6 times a normal deviate, another one in each call.
"""

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from builders.generated.object_pools import NoveltyFilter
from builders.precision.label_files import SHIPPED_FOLDER
from flows.definition_loader import load_definition
from flows.evaluation import evaluate_systems
from flows.set_kinds import SET_KINDS
from querytruth.backends.models.embedders.clip import ClipEmbedder
from querytruth.backends.models.embedders.sentence_transformer import SentenceEmbedder, SentenceTransformerOptions
from querytruth.backends.models.embedders.sentence_transformer import load as load_sentence_embedder
from querytruth.evaluation.encoded_sets import encode_set
from querytruth.evaluation.judged_sets import load_judged_set
from querytruth.evaluation.requests import EvaluationOptions
from querytruth.evaluation.systems import make_vector_system
from querytruth.sample_album.album_files import write_sample_album
from querytruth.sets.benchmark_set import canonical_json
from tests.tiny_dual_encoders import save_dual_encoder

SCENES = 40
NOISE = 1e-6


def add_noise(seed: int) -> None:
    rng = np.random.default_rng(seed)

    def make_noisy(encode: Any) -> Any:
        def noisy(self: Any, items: Any) -> Any:
            vectors = encode(self, items)
            return (vectors * (1 + NOISE * rng.standard_normal(vectors.shape))).astype(np.float32)

        return noisy

    methods = ((ClipEmbedder, "encode_images"), (ClipEmbedder, "encode_texts"), (SentenceEmbedder, "_encode"))
    for embedder, name in methods:
        setattr(embedder, name, make_noisy(getattr(embedder, name)))


def use_batch(size: int) -> None:
    def make_with_batch(prepare: Any) -> Any:
        return lambda self, *parts: prepare(self, *parts[:-1], size)

    ClipEmbedder.__init__ = make_with_batch(ClipEmbedder.__init__)  # type: ignore[method-assign]
    SentenceEmbedder.__init__ = make_with_batch(SentenceEmbedder.__init__)  # type: ignore[method-assign]


def build_sets(folder: Path, minilm: Path, clip: Path) -> dict[str, str]:
    write_sample_album(folder / "album", SCENES)
    out = f"out={folder / 'sets'}"
    album = SHIPPED_FOLDER / "sample-album"
    captions = [f"{part}.options.path={folder / 'album' / part}.csv" for part in ("captions", "descriptions")]
    models = [f"ambiguity.text_embedder={minilm}", f"ambiguity.image_embedder={clip}"]
    duplicates = [f"near_duplicates.embedder={clip}", "near_duplicates.cosine=0.99999"]
    overrides = {
        "gallery": [out, f"images={folder / 'album' / 'images'}", *duplicates],
        "recall": [out, "captions.prompt=en/caption", "sizes=[20]", *captions, *models],
    }
    digests = {}
    for kind, keys in overrides.items():
        definition: Any = load_definition(album / f"{kind}.yaml", keys, kind)
        digests[kind] = SET_KINDS[kind].build_set(definition).manifest["content_digest"]
    return digests


def judge_objects(minilm: Path) -> str:
    """The verdicts on the labels of a table, in the order of the table."""
    labels = pd.read_csv(SHIPPED_FOLDER / "objects365" / "labels.csv")["en"].tolist()
    embedder = load_sentence_embedder(SentenceTransformerOptions(name=str(minilm)))
    filter_ = NoveltyFilter(embedder.encode_texts, 0.6)
    verdicts = [
        (verdict.is_new, verdict.nearest)
        for start in range(0, len(labels), 7)
        for verdict in filter_.classify(labels[start : start + 7])
    ]
    return hashlib.sha256(canonical_json(verdicts)).hexdigest()


def evaluate(version: Path, clip: Path) -> str:
    """The figures, their intervals and the ranks of a search by a model."""
    judged = load_judged_set(version)
    system = make_vector_system(encode_set(str(clip), judged))
    (stored,) = evaluate_systems(judged, [system], ("text_to_image",), EvaluationOptions(page=False))
    result = stored.scored.result
    tables = (result.figures, result.per_query, result.slices, result.ranked.drop(columns="score"))
    return hashlib.sha256("\n".join(table.to_csv(index=False) for table in tables).encode()).hexdigest()


def main(folder: Path, minilm: Path, seed: str | None = None) -> None:
    if seed is not None:
        add_noise(int(seed))
    if "VARIANT_BATCH" in os.environ:
        use_batch(int(os.environ["VARIANT_BATCH"]))
    clip = save_dual_encoder("clip", folder / "clip")
    digests = build_sets(folder, minilm, clip)
    digests["objects"] = judge_objects(minilm)
    digests["evaluation"] = evaluate(folder / "sets" / "sample-captions" / "v1", clip)
    stored = sorted(folder.glob("sets/**/.vectors/*/*.parquet"))
    print(
        json.dumps({**digests, "vectors": hashlib.sha256(b"".join(path.read_bytes() for path in stored)).hexdigest()})
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
