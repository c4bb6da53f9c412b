"""A judge on loopback that looks at the bytes of an image and errs as often as it is told to."""

import base64
import hashlib
from collections.abc import Callable
from pathlib import Path

from querytruth.records import stable_hash
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.decision_log import append_decisions
from querytruth.sets.decision_records import QueryDecision
from querytruth.sets.set_files import StoredSet
from tests.loopback import CannedResponse, LoopbackAnswer, ReceivedRequest

Fits = Callable[[str, str], bool]  # of a query's text and the digest of an image


class ScriptedJudge:
    """Answers as a rerank endpoint: about .9 where it takes the image for right, else about .1; of `hits` of the right
    images and of `misses` of the others it does."""

    def __init__(self, fits: Fits, hits: float = 0.9, misses: float = 0.05) -> None:
        self.fits, self.hits, self.misses = fits, hits, misses

    def __call__(self, asked: ReceivedRequest) -> LoopbackAnswer:
        text, (document,) = str(asked.json["query"]), asked.json["documents"]
        (image,) = [part["image_url"]["url"] for part in document["content"]]
        digest = hashlib.sha256(base64.b64decode(image.partition(",")[2])).hexdigest()
        luck = stable_hash("judge", text, digest) / 2**64
        says = luck < (self.hits if self.fits(text, digest) else self.misses)
        noise = stable_hash("noise", text, digest) % 100 / 1000
        return CannedResponse({"results": [{"index": 0, "relevance_score": 0.85 * says + 0.05 + noise}]})

    @staticmethod
    def keys(url: str) -> dict[str, object]:
        """The definition's key of this judge."""
        return {"model": "rerank", "options": {"base_url": f"{url}/v1", "name": "eye"}, "at_least": 0.8}


def digests_of(stored: StoredSet) -> dict[str, str]:
    """By image the digest of its file."""
    images = stored.tables.images
    files = {row.image_id: Path(stored.path) / str(row.path) for row in images.itertuples()}
    return {image: hashlib.sha256(file.read_bytes()).hexdigest() for image, file in files.items()}


def answer_pairs(stored: StoredSet, pairs: list[tuple[str, str]], fits: Fits) -> None:
    """A person who sees all says of these pairs of query and image what is right."""
    digests = digests_of(stored)
    texts = dict(zip(stored.tables.queries["query_id"], stored.tables.queries["text"], strict=True))
    said = {"reviewer": "lin", "at": "2026-01-01T00:00:00Z"}
    decisions = [
        QueryDecision(query, texts[query], "grade", image, relevance=int(fits(texts[query], digests[image])), **said)
        for query, image in pairs
    ]
    append_decisions(stored.path.parent, decisions)


def list_judged(tables: Tables, by: str) -> list[tuple[str, str]]:
    """The pairs that are right by a judge of this name."""
    rows = tables.qrels[(tables.qrels["judged_by"] == by) & (tables.qrels["relevance"] > 0)]
    return list(zip(rows["query_id"].astype(str), rows["image_id"].astype(str), strict=True))
