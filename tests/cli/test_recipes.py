"""The recipes of docs/recipes: each file loads, and the answers of Immich and PhotoPrism, recorded in their published
form and served on loopback, give figures."""

import base64
import hashlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from flows.definition_loader import load_definition
from querytruth.backends.search_systems import load_system_file
from querytruth.evaluation.encoded_sets import read_encoding_cost
from tests.cli.conftest import Run
from tests.images import make_jpeg
from tests.loopback import CannedResponse, Loopback, ReceivedRequest
from tests.tiny_dual_encoders import save_dual_encoder
from tests.worlds import build_of

RECIPES = Path(__file__).parents[2] / "docs" / "recipes"
NAMES = ["red", "green", "blue", "yellow", "violet", "white"]
COLOURS = [(200, 20, 20), (20, 200, 20), (20, 20, 200), (220, 220, 20), (160, 30, 200), (250, 250, 250)]
KEYS = {"IMMICH_API_KEY": "immich-key-0123456789", "PHOTOPRISM_AUTHORIZATION": "Bearer prism-key-0123456789"}


@pytest.fixture
def album(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Six photos, and a set with a caption of each in both languages."""
    monkeypatch.chdir(tmp_path)
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "photos").mkdir()
    rows = ["file_name,language,caption"]
    for name, colour in zip(NAMES, COLOURS, strict=True):
        (tmp_path / "photos" / f"{name}.jpg").write_bytes(make_jpeg(colour, (64, 48)))
        rows += [f"{name}.jpg,en,a wall that is painted {name}", f"{name}.jpg,zh,一面刷成{name}的墙"]
    (tmp_path / "captions.csv").write_text("\n".join(rows))
    keys = [
        "images=photos",
        "name=album",
        "near_duplicates.distance=null",
        "render.size=32",
        "ambiguity.text_embedder=char_ngrams",
    ]
    keys += [
        "captions.model=captions_file",
        f"captions.options.path={tmp_path / 'captions.csv'}",
        "ambiguity.policy=review",
        "captions.prompt=[en/caption, zh/caption]",
    ]
    build_of("recall", keys)
    return tmp_path


def list_photos(album: Path, text: str, k: int) -> list[Path]:
    """The photos of a service, the best first: whose colour is asked for, but for white, which it takes for yellow."""
    wanted = next(name for name in NAMES if name in text)
    folder = next(place for place in (album / "photos", album / "moved") if place.is_dir())
    files = sorted(folder.iterdir())
    return sorted(files, key=lambda file: file.stem != {"white": "yellow"}.get(wanted, wanted))[:k]


def answer_as_immich(album: Path, request: ReceivedRequest) -> CannedResponse:
    """The answer of POST /api/search/smart, with the fields that its description publishes."""
    asked = request.json
    assert request.path == "/api/search/smart" and request.headers["x-api-key"] == KEYS["IMMICH_API_KEY"]
    assert asked["type"] == "IMAGE" and isinstance(asked["size"], int)
    items = [
        {
            "id": f"0b1d-{number}",
            "type": "IMAGE",
            "originalFileName": f"IMG_{number}.jpg",  # Immich may have renamed it
            "checksum": base64.b64encode(hashlib.sha1(file.read_bytes()).digest()).decode(),
        }
        for number, file in enumerate(list_photos(album, asked["query"], asked["size"]))
    ]
    assets = {"total": len(items), "count": len(items), "items": items, "facets": [], "nextPage": None}
    return CannedResponse({"albums": {"total": 0, "count": 0, "items": [], "facets": []}, "assets": assets})


def answer_as_photoprism(album: Path, request: ReceivedRequest) -> CannedResponse:
    """The answer of GET /api/v1/photos: a list."""
    address = urlsplit(request.path)
    asked = {name: values[0] for name, values in parse_qs(address.query).items()}
    assert address.path == "/api/v1/photos" and asked["merged"] == "true"
    assert request.headers["authorization"] == KEYS["PHOTOPRISM_AUTHORIZATION"]
    photos = list_photos(album, asked["q"], int(asked["count"]))
    found = [{"UID": f"ps{n}", "Hash": hashlib.sha1(file.read_bytes()).hexdigest()} for n, file in enumerate(photos)]
    return CannedResponse(json.dumps(found))


@pytest.fixture(params=["immich", "photoprism"])
def recipe(request: pytest.FixtureRequest, album: Path) -> Iterator[tuple[str, Loopback]]:
    """A recipe beside the set, whose address is that of a service on loopback."""
    answer = {"immich": answer_as_immich, "photoprism": answer_as_photoprism}[request.param]
    server = Loopback(lambda received: answer(album, received))
    text = (RECIPES / f"{request.param}.yaml").read_text("utf-8")
    address = yaml.safe_load(text)["url"]
    origin = "/".join(address.split("/")[:3])
    (album / f"{request.param}.yaml").write_text(text.replace(origin, server.url))
    yield request.param, server
    server.close()


@pytest.mark.parametrize("name", sorted(file.stem for file in RECIPES.glob("*.yaml")))
def test_every_recipe_loads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, value in KEYS.items():
        monkeypatch.setenv(variable, value)
    file = RECIPES / f"{name}.yaml"
    if "kind" in yaml.safe_load(file.read_text("utf-8")):
        assert load_definition(file, []).name == "my-album"
        return
    described = load_system_file(file)
    assert described.name == name


def test_there_is_a_recipe_for_each_of_the_five() -> None:
    assert {file.stem for file in RECIPES.glob("*.yaml")} == {
        "immich",
        "photoprism",
        "elasticsearch",
        "qdrant",
        "folder",
    }
    for page, place in (("systems.md", "recipes"), ("zh/systems.md", "../recipes")):
        text = (RECIPES.parent / page).read_text("utf-8")
        assert all(f"({place}/{file.name})" in text for file in RECIPES.glob("*.yaml")), page


@pytest.mark.thorough
def test_photos_are_found_by_the_sha1_of_their_files(run: Run, album: Path, recipe: tuple[str, Loopback]) -> None:
    name, _ = recipe
    shown, _ = run("search", "--trial", "--system", f"{name}.yaml", "album", "a wall that is painted red")
    assert "0 match nothing in album" in shown and "red.jpg" in shown
    words = ("evaluate", "album", "--system", f"{name}.yaml", "--metrics", "hit@1", "--no-page", "--json")
    (result,) = json.loads(run(*words)[0])["results"]
    assert result["figures"][0]["value"] == pytest.approx(5 / 6)
    assert result["counts"]["search_system"]["unmapped_results"] == 0
    kept = (album / "datasets/.systems/sha1.txt").read_text().splitlines()
    assert len(kept) == 6

    (album / "photos").rename(album / "moved")  # what is kept needs no file
    assert json.loads(run(*words, "--offline")[0])["results"][0]["figures"] == result["figures"]


def test_a_photo_that_changed_is_not_taken_for_the_one_of_the_set(
    run: Run, album: Path, recipe: tuple[str, Loopback]
) -> None:
    (album / "photos/red.jpg").write_bytes(make_jpeg((1, 2, 3), (64, 48)))
    shown, _ = run("search", "--trial", "--system", f"{recipe[0]}.yaml", "album", "a wall that is painted red")
    assert "1 match nothing in album" in shown
    (album / "photos").rename(album / "moved")
    (album / "datasets/.systems/sha1.txt").unlink()
    _, err = run("search", "--trial", "--system", f"{recipe[0]}.yaml", "album", "a wall that is painted red", code=1)
    assert "give the folder of the photos: --images FOLDER" in err


@pytest.mark.slow
def test_the_walk_of_the_page_ends_in_a_table(run: Run, album: Path, recipe: tuple[str, Loopback]) -> None:
    """The commands of the page, timed: a service and two models of one's own folder, side by side."""
    name, _ = recipe
    begin = time.perf_counter()
    models = [save_dual_encoder(kind, album / kind) for kind in ("clip", "chinese_clip")]
    run("evaluate", "album", "--system", f"{name}.yaml", "--no-page")
    run("evaluate", "album", *[word for model in models for word in ("--model", model)], "--no-page")
    table, _ = run("leaderboard", "album", "--metric", "hit@1")
    assert time.perf_counter() - begin < 120
    for word in (name[:8], "clip", "chinese", "figure", "95%", "0.8333", "en", "zh", "p95 ms", "ms per", "MB per"):
        assert word in table, table
    systems = run.json("leaderboard", "album")["systems"]
    model = next(one for one in systems if one["name"].startswith("clip"))
    assert model["encoding"]["mb_per_100000_images"] == pytest.approx(24 * 4 * 100_000 / 1e6)
    assert model["encoding"]["ms_per_image"] > 0
    service = next(one for one in systems if one["name"] == name)
    assert service["encoding"] is None and service["latency_ms"]["p95"] > 0


def test_a_damaged_record_of_costs_is_no_cost(tmp_path: Path) -> None:
    system: dict[str, Any] = {"name": "m", "revision": "r", "dimensions": 512}
    lines = ["{", '{"name": "m"}', '{"name": "m", "revision": "r", "images": "x", "seconds": 1}']
    (tmp_path / "encoding.jsonl").write_text("\n".join(lines) + "\n")
    cost = read_encoding_cost(tmp_path, system)
    assert cost is not None and cost["ms_per_image"] != cost["ms_per_image"] and cost["mb_per_100000_images"] == 204.8
    with (tmp_path / "encoding.jsonl").open("a") as file:
        for images, seconds in ((10, 1.0), (1000, 20.0), (20, 9.0)):
            file.write(json.dumps({"name": "m", "revision": "r", "images": images, "seconds": seconds}) + "\n")
    assert read_encoding_cost(tmp_path, system) == {"ms_per_image": 20.0, "mb_per_100000_images": 204.8}
    assert read_encoding_cost(tmp_path, {"name": "lexical"}) is None
