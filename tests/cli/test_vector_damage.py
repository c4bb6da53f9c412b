"""An index that lost something on the way to a service is found: random unit vectors with planted neighbours, behind
HTTP."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import querytruth as qt
from querytruth.api.evaluations import Evaluation
from querytruth.sets.benchmark_set import Tables
from tests.loopback import CannedResponse, LoopbackAnswer, ReceivedRequest, loopback
from tests.small_sets import image_id_of, publish_small_set, query_id_of, small_tables

IMAGES, QUERIES, DIMENSIONS = 1500, 400, 32
RNG = np.random.default_rng(5)


def unit(rows: Any) -> Any:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


GALLERY = unit(RNG.normal(size=(IMAGES, DIMENSIONS)))
ASKED = unit(GALLERY[:QUERIES] + 0.15 * RNG.normal(size=(QUERIES, DIMENSIONS)))
LENGTHS = RNG.lognormal(0, 0.15, size=(IMAGES, 1))  # of vectors that nobody normalised
IDS = [image_id_of(str(number)) for number in range(IMAGES)]


def int8(rows: Any, largest: float) -> Any:
    return np.clip(np.round(rows / largest * 127), -128, 127)


INDEXES: dict[str, Callable[[Any], Any]] = {
    "exact": lambda asked: GALLERY @ asked,
    "int8": lambda asked: int8(GALLERY, 1) @ int8(asked, 1),
    "int8_of_too_small_a_range": lambda asked: int8(GALLERY, 0.15) @ int8(asked, 0.15),
    "inner_product_without_normalising": lambda asked: (GALLERY * LENGTHS) @ asked,
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set with one image for each query; no files of images."""
    folder, tables = tmp_path_factory.mktemp("vectors"), small_tables(graded=False)
    image = tables.images.iloc[:1].assign(duplicate_group=None)
    images = pd.concat([image] * IMAGES, ignore_index=True).assign(image_id=IDS)
    names = [f"q{number}" for number in range(QUERIES)]
    ids = [query_id_of(name) for name in names]
    queries = pd.concat([tables.queries.iloc[:1]] * QUERIES, ignore_index=True).assign(query_id=ids, text=names)
    qrels = pd.DataFrame({"query_id": ids, "image_id": IDS[:QUERIES]})
    qrels = qrels.assign(relevance=pd.array([1] * QUERIES, dtype="int8"), judged_by="human", evidence=None)
    qrels = qrels.astype(dict.fromkeys(["query_id", "image_id", "judged_by", "evidence"], "category"))
    whole = Tables(
        queries.sort_values("query_id", ignore_index=True),
        images.sort_values("image_id", ignore_index=True),
        qrels.sort_values(["query_id", "image_id"], ignore_index=True),
    )
    return publish_small_set(folder, whole, images=False).path


@pytest.fixture(scope="module")
def results(world: Path) -> Iterator[dict[str, Evaluation]]:
    """Each index behind HTTP, evaluated as a live system."""

    def answer(request: ReceivedRequest) -> LoopbackAnswer:
        asked = request.json
        number = asked["text"][1:]
        scores = INDEXES[asked["index"]](ASKED[int(number) if number.isdigit() else 0])  # or the index's probe
        best = np.argsort(-scores, kind="stable")[: asked["k"]]
        return CannedResponse({"results": [{"id": IDS[place], "score": float(scores[place])} for place in best]})

    with loopback(answer) as server:
        found = {}
        for index in INDEXES:
            file = world.parents[2] / f"{index}.yaml"
            body = f'{{"index": "{index}", "text": "{{query}}", "k": "{{k}}"}}'
            file.write_text(f"system: http\nurl: {server.url}\nmethod: POST\nbody: {body}\nscore: score\n")
            found[index] = qt.evaluate(world, system=file, k=20, metrics=["hit@1", "rr@10"])
        yield found


@pytest.mark.thorough
def test_an_exact_index_behind_http_returns_what_our_own_search_returns(
    world: Path, results: dict[str, Evaluation]
) -> None:
    queries = np.stack([ASKED[int(text[1:])] for text in qt.load(world).queries["text"]])
    images = np.stack([GALLERY[IDS.index(image)] for image in qt.load(world).images["image_id"]])
    ours = qt.evaluate(world, vectors=(queries, images), k=20, metrics=["hit@1", "rr@10"]).ranked
    columns = ["query_id", "image_id", "rank"]
    theirs = results["exact"].ranked
    keys = ["query_id", "rank"]
    assert ours[columns].sort_values(keys).to_numpy().tolist() == theirs[columns].sort_values(keys).to_numpy().tolist()


@pytest.mark.thorough
@pytest.mark.parametrize("index", list(INDEXES)[2:])
def test_a_damaged_index_is_found(world: Path, results: dict[str, Evaluation], index: str) -> None:
    exact, damaged = results["exact"], results[index]
    (row,) = qt.compare(world, {"exact": exact, "damaged": damaged}, metrics=["hit@1"]).table.to_dict("records")
    assert row["p_holm"] < 0.001 and row["wins"] > 5 * row["losses"]
    gated = qt.gate(world, candidate=damaged, baseline=exact, metric="hit@1", margin=0.01)
    assert gated.verdict == "FAIL"


@pytest.mark.thorough
def test_whole_int8_is_no_damage(world: Path, results: dict[str, Evaluation]) -> None:
    exact, quantized = results["exact"], results["int8"]
    (row,) = qt.compare(world, {"exact": exact, "int8": quantized}, metrics=["hit@1"]).table.to_dict("records")
    assert row["p_holm"] > 0.05 and abs(row["difference"]) < 0.01
    assert qt.gate(world, candidate=quantized, baseline=exact, metric="hit@1", margin=0.02).verdict == "PASS"
