"""A recall set whose models cannot be used: it is known before any caption is paid for."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.definition_loader import load_definition
from flows.set_kinds import plan_set
from querytruth.errors import UserError
from tests.images import draw_scene
from tests.loopback import CannedResponse, Loopback, loopback
from tests.worlds import build_of


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    """An endpoint with a key."""
    monkeypatch.setenv("CAPTION_KEY", "sk-1")
    with loopback(lambda _asked: CannedResponse("busy", 503)) as server:
        yield server


def definition_of(place: Path, endpoint: Loopback, *more: str) -> list[str]:
    folder = place / "images"
    folder.mkdir(exist_ok=True)
    for number in range(2):
        draw_scene(number).save(folder / f"{number}.png")
    options = {"base_url": endpoint.url, "name": "tiny", "key_env": "CAPTION_KEY", "concurrency": "1"}
    keys = [f"captions.options.{name}={value}" for name, value in options.items()]
    keys += ["captions.model=openai_compatible", "render.size=64", "ambiguity.text_embedder=char_ngrams"]
    return ["name=album", f"out={place / 'sets'}", f"images={folder}", *keys, *more]


def test_a_text_embedder_that_cannot_be_loaded_stops_the_build_before_anything_is_asked(
    tmp_path: Path, endpoint: Loopback
) -> None:
    given = definition_of(tmp_path, endpoint, f"ambiguity.text_embedder={tmp_path / 'no_model'}")
    with pytest.raises(UserError, match="no_model"):
        build_of("recall", given)
    with pytest.raises(UserError, match="no_model"):
        plan_set(load_definition(None, given, "recall"))
    assert not endpoint.asked


def test_a_plan_names_the_key_that_is_missing(
    tmp_path: Path, endpoint: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CAPTION_KEY")
    given = definition_of(tmp_path, endpoint)
    for run in (build_of, lambda kind, keys: plan_set(load_definition(None, keys, kind))):
        with pytest.raises(UserError, match="environment variable CAPTION_KEY"):
            run("recall", given)
