"""Models and kept vectors on small sets: real tiny models of the real classes, each image and text encoded once."""

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from builders.publication import BuiltTables, publish_built
from flows.definition_loader import load_definition
from flows.set_kinds import build_set
from querytruth.backends.models.embedders import clip
from querytruth.backends.steps import BuildRun, active_run
from querytruth.definitions import SetDefinition
from querytruth.errors import UserError
from querytruth.evaluation import systems
from querytruth.evaluation.encoded_sets import IMAGE_CHANGES, encode_set, read_encoded_set
from querytruth.evaluation.evaluation_result import IMAGE_TO_TEXT, TEXT_TO_IMAGE, EvaluationResult
from querytruth.evaluation.judged_sets import JudgedSet, build_evaluation_view, load_judged_set
from querytruth.evaluation.steps import score_system, store_result
from querytruth.sets import set_files
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.ledger import Ledger
from querytruth.sets.set_files import locate_images
from tests.images import draw_scene
from tests.small_sets import image_id_of, publish_small_set, query_id_of, small_tables
from tests.tiny_dual_encoders import save_dual_encoder
from tests.tiny_text_models import save_text_model

Models = Callable[[str], Path]

METRICS = ("hit@1", "rr", "p@r")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Models:
    """The folder of a tiny model of a kind, made when it is first asked for."""
    folder = tmp_path_factory.mktemp("models")

    @functools.cache
    def make(kind: str) -> Path:
        if kind != "sentences":
            return save_dual_encoder(kind, folder / kind)
        from sentence_transformers import SentenceTransformer

        SentenceTransformer(str(make("clip"))).save(str(folder / kind))
        return folder / kind

    return make


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, int]]:
    """How many images and texts CLIP encoded."""
    done = {"images": 0, "texts": 0}

    def watched(name: str, kind: str) -> None:
        real = getattr(clip.ClipEmbedder, name)

        def told(self: clip.ClipEmbedder, items: Any) -> Any:
            rows = real(self, items)
            done[kind] += len(rows)
            return rows

        monkeypatch.setattr(clip.ClipEmbedder, name, told)

    watched("encode_images", "images")
    watched("encode_texts", "texts")
    yield done


def draw(folder: Path, names: list[str], suffix: str = "png") -> None:
    folder.mkdir(exist_ok=True)
    for number, name in enumerate(names):
        draw_scene(number, (120, 90)).save(folder / f"{name}.{suffix}")


def album(place: Path, names: tuple[str, ...] = ("dog", "cat", "cow", "car", "bus")) -> JudgedSet:
    """An image and a caption each, rendered into the set."""
    draw(place / "album", list(names))
    rows = ["file_name,language,caption", *[f"{name}.png,en,one {name} on the beach" for name in names]]
    (place / "captions.csv").write_text("\n".join(rows))
    keys = ["name=album", f"out={place / 'sets'}", f"images={place / 'album'}", "captions.prompt=[en/caption]"]
    keys += ["captions.model=captions_file", f"captions.options.path={place / 'captions.csv'}", "render.size=64"]
    with active_run(BuildRun()):
        return load_judged_set(
            build_set(load_definition(None, [*keys, "ambiguity.text_embedder=char_ngrams"], "recall")).path
        )


def by_reference(place: Path) -> JudgedSet:
    """The same, but the set only says where the images lie."""
    tables = set_files.read_set(album(place).stored.path).tables  # type: ignore[union-attr]
    paths = [str(place / "album" / name) for name in tables.images["file_name"]]
    far = Tables(tables.queries, tables.images.assign(path=paths), tables.qrels)
    definition = SetDefinition(kind="recall", name="far", out=place / "sets")
    return load_judged_set(publish_built(definition, BuiltTables(far, Ledger(), {"1": "right"})).path)


def result(
    judged: JudgedSet, system: systems.EvaluatedSystem, way: str = TEXT_TO_IMAGE, k: int | None = None
) -> EvaluationResult:
    return score_system(build_evaluation_view(judged, way, METRICS, (0.9,)), system, k).result


def cosines(judged: JudgedSet, model: Path) -> pd.DataFrame:
    """Texts by images, by the model itself, of the files as anybody would open them."""
    assert judged.stored is not None
    embedder = clip.load(clip.ClipOptions(name=str(model)))
    places = locate_images(judged.stored)
    images = embedder.encode_images([Image.open(str(place.location)).convert("RGB") for place in places])
    queries = judged.stored.tables.queries
    texts = embedder.encode_texts(queries["text"])
    return pd.DataFrame(texts @ images.T, index=queries["query_id"], columns=[place.image_id for place in places])


@pytest.mark.parametrize("kind", ["clip", "chinese_clip", "siglip", "sentences"])
@pytest.mark.parametrize("where", [album, by_reference])
@pytest.mark.thorough
def test_a_model_ranks_a_set(tmp_path: Path, model: Models, kind: str, where: Callable[[Path], JudgedSet]) -> None:
    judged = where(tmp_path)
    found = result(judged, systems.make_vector_system(encode_set(str(model(kind)), judged)))
    expected = cosines(judged, model("clip" if kind == "sentences" else kind))
    for query_id, row in expected.iterrows():
        mine = found.ranked[found.ranked["query_id"] == query_id]
        assert mine["score"].tolist() == pytest.approx(row[mine["image_id"]].tolist(), abs=2e-5)
        assert len(mine) == 5
    assert found.system["kind"] == "model" and found.system["name"] == model(kind).name
    assert found.system["revision"].startswith("files:") and found.system["index"] == "exact"


@pytest.mark.thorough
def test_nothing_is_encoded_a_second_time(tmp_path: Path, model: Models, counted: dict[str, int]) -> None:
    judged = album(tmp_path)
    first = result(judged, systems.make_vector_system(encode_set(str(model("clip")), judged)))
    made, counted["texts"] = counted["images"], 0
    assert made == 5
    again = result(judged, systems.make_vector_system(encode_set(str(model("clip")), judged)))
    assert counted == {"images": 5, "texts": 0}
    pd.testing.assert_frame_equal(first.ranked, again.ranked)
    grown = album(tmp_path, ("dog", "cat", "cow", "car", "bus", "ape"))
    encode_set(str(model("clip")), grown)
    assert counted["images"] == 6, "the next version shares its images with this one"


@pytest.mark.thorough
def test_both_ways_by_one_model(tmp_path: Path, model: Models) -> None:
    judged = album(tmp_path)
    encoded = encode_set(str(model("clip")), judged)
    expected = cosines(judged, model("clip"))
    found = result(judged, systems.make_vector_system(encoded), IMAGE_TO_TEXT)
    assert found.direction == IMAGE_TO_TEXT and len(found.per_query) == 5 and len(found.slices) == 0
    image = found.per_query.index[0]
    mine = found.ranked[found.ranked["query_id"] == image]
    assert mine["image_id"].iloc[0] == expected[image].idxmax()


@pytest.mark.thorough
def test_images_that_are_gone_or_changed_are_told_and_not_found(tmp_path: Path, model: Models) -> None:
    judged = by_reference(tmp_path)
    (tmp_path / "album" / "dog.png").unlink()
    draw(tmp_path / "album", ["cat"])
    (tmp_path / "album" / "cow.png").write_bytes(b"no image")
    encoded = encode_set(str(model("clip")), judged)
    lost = score_system(build_evaluation_view(judged, TEXT_TO_IMAGE, METRICS, ()), systems.make_vector_system(encoded))
    names = dict(zip(judged.images["image_id"], judged.images["file_name"], strict=True))  # type: ignore[index]
    told = {names[row.item]: row.reason for row in lost.ledger.rows().itertuples()}
    assert told == {"dog.png": "cannot_be_read", "cat.png": "changed", "cow.png": "changed"}
    warning = next(w for w in lost.result.warnings if w.code == "not_encoded")
    assert "3 of 5 image" in warning.detail and "2 changed" in warning.detail
    assert set(lost.run["image_id"].map(names)) == {"car.png", "bus.png"}
    store_result(lost, judged.queries, tmp_path / "result")
    assert pq.read_table(tmp_path / "result" / "ledger.parquet").num_rows == 3
    for path in (tmp_path / "album").iterdir():
        path.unlink()
    with pytest.raises(UserError, match="none of the 5 images is available"):
        encode_set(str(save_dual_encoder("clip", tmp_path / "other", seed=1)), judged)


@pytest.mark.thorough
def test_a_model_of_texts_alone_is_refused(tmp_path: Path) -> None:
    judged = album(tmp_path)
    with pytest.raises(UserError, match="reads texts only, not images"):
        encode_set(str(save_text_model(tmp_path / "model")), judged)


# --- vectors that others computed


def parts(folder: Path, name: str, ids: list[str], vectors: np.ndarray, size: int = 2) -> None:
    (folder / name).mkdir(parents=True, exist_ok=True)
    id_name = {"images": "image_id", "queries": "query_id"}[name]
    for start in range(0, len(ids), size):
        rows = {id_name: ids[start : start + size], "vector": list(vectors[start : start + size])}
        pq.write_table(pa.table(rows), folder / name / f"part-{start:03}.parquet")


@pytest.fixture
def vectors(tmp_path: Path) -> tuple[JudgedSet, Path]:
    """The cat's text points at the cat, the others' at nothing in particular; in an order of their own."""
    judged = load_judged_set(publish_small_set(tmp_path, small_tables()).path)
    images, texts = ["cat", "tree", "dog", "beach"], ["狗", "cat", "none", "dog"]
    parts(tmp_path / "v", "images", [image_id_of(name) for name in images], np.eye(4, 3, dtype=np.float64))
    asked = np.array([[0, 0, 1], [1, 0, 0], [1, 1, 1], [0, 1, 0]], dtype=np.float64)
    parts(tmp_path / "v", "queries", [query_id_of(name) for name in texts], asked)
    return judged, tmp_path / "v"


def test_vectors_in_parts(vectors: tuple[JudgedSet, Path]) -> None:
    judged, folder = vectors
    found = result(judged, systems.make_vector_system(read_encoded_set(folder, judged)))
    cat = found.ranked[found.ranked["query_id"] == query_id_of("cat")]
    assert (cat["image_id"].iloc[0], cat["score"].iloc[0]) == (image_id_of("cat"), 1)
    assert found.system["rows_of_other_ids"] == 0 and found.counts["search"]["missed_of_exact"] == 0
    for index in ("ivf", "hnsw"):
        near = result(judged, systems.make_vector_system(read_encoded_set(folder, judged), index))
        pd.testing.assert_frame_equal(near.ranked, found.ranked)
        assert near.system["index"] == index
    with pytest.raises(UserError, match="is not a known index"):
        systems.make_vector_system(read_encoded_set(folder, judged), "lsh")


def test_vectors_that_are_missing_or_of_others(vectors: tuple[JudgedSet, Path]) -> None:
    judged, folder = vectors
    parts(folder, "images", [image_id_of("dog"), image_id_of("stranger")], np.ones((2, 3)))
    (folder / "images" / "part-002.parquet").unlink()
    encoded = read_encoded_set(folder, judged)
    found = result(judged, systems.make_vector_system(encoded))
    assert found.system["rows_of_other_ids"] == 1
    assert "3 of 4 image" in next(w for w in found.warnings if w.code == "not_encoded").detail
    assert set(encoded.ledger.rows()["item"]) == {image_id_of(name) for name in ("cat", "tree", "beach")}


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ({"image_id": ["a"], "vector": [[1.0, 2.0]]}, "has vectors of 2 numbers; other files have 3"),
        ({"image_id": [image_id_of("cat")], "vector": [[1.0, 2.0, 3.0]]}, "repeats the id"),
        ({"image_id": ["a"], "embedding": [[1.0]]}, "has no column vector"),
        ({"image_id": ["a"], "vector": [1.0]}, "has vectors of type double"),
        ({"image_id": ["a", "b"], "vector": [[1.0, 2.0, 3.0], [1.0]]}, "has empty vectors or different lengths"),
        ({"image_id": [image_id_of("none")], "vector": [[1.0, None, 3.0]]}, "has empty vectors or different lengths"),
    ],
)
@pytest.mark.thorough
def test_broken_vectors_name_their_file(vectors: tuple[JudgedSet, Path], rows: dict[str, list[Any]], says: str) -> None:
    judged, folder = vectors
    pq.write_table(pa.table(rows), folder / "images" / "z.parquet")
    with pytest.raises(UserError, match=says) as refused:
        read_encoded_set(folder, judged)
    assert "z.parquet" in str(refused.value)


def test_an_id_that_is_there_twice_in_one_part_is_refused(vectors: tuple[JudgedSet, Path]) -> None:
    judged, folder = vectors
    parts(folder, "images", [image_id_of("cat"), image_id_of("cat")], np.ones((2, 3)))
    with pytest.raises(UserError, match=f"repeats the id {image_id_of('cat')}"):
        read_encoded_set(folder, judged)


def test_vectors_that_are_no_numbers_are_refused_by_their_id(vectors: tuple[JudgedSet, Path]) -> None:
    judged, folder = vectors
    (folder / "images" / "part-000.parquet").unlink()
    parts(folder, "images", [image_id_of("cat"), image_id_of("tree")], np.array([[np.nan, 0, 0], [0, 1, 0]]))
    with pytest.raises(UserError, match=image_id_of("cat")):
        result(judged, systems.make_vector_system(read_encoded_set(folder, judged)))
    with pytest.raises(UserError, match="has no rows"):
        read_encoded_set(folder.parent, judged)


def test_changed_images_have_the_vectors_of_their_own_pixels(tmp_path: Path, model: Models) -> None:
    judged, embedder = album(tmp_path), clip.load(clip.ClipOptions(name=str(model("clip"))))
    assert judged.stored is not None
    opened = [Image.open(str(one.location)).convert("RGB") for one in locate_images(judged.stored)]
    plain = encode_set(str(model("clip")), judged).images.vectors
    for kind, change in IMAGE_CHANGES.items():
        vectors = encode_set(str(model("clip")), judged, kind).images.vectors
        assert np.allclose(vectors, embedder.encode_images(map(change, opened)), atol=1e-5)
        assert not np.allclose(vectors, plain, atol=1e-5)
    assert np.array_equal(encode_set(str(model("clip")), judged).images.vectors, plain)
