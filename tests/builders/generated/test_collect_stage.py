"""Queries and results of a generated set that the rules turned away and people want: the next build has them."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from builders.generated import steps
from builders.generated.collect_stage import run_collect_stage
from builders.generated.definition import GeneratedDefinition
from builders.generated.pool_tables import generated_query_id
from builders.publication import BuildResult, publish_decisions
from flows.rebuild import rebuild_tables
from flows.set_kinds import build_set, plan_set
from querytruth.backends.steps import BuildRun, active_run
from querytruth.sets import decision_log, set_files
from querytruth.sets.decision_records import Override
from tests.flows.image_web import FakeImageWeb, allow_loopback, collect_with_decisions, make_definition
from tests.loopback import Loopback, loopback

QUERIES = 4
RULES = {"first": 8, "keep": 3}


class MixedWeb(FakeImageWeb):
    """One in which queries find different things: `special` are the kinds by query, of which `shared/n` is the same
    good image for all."""

    def __init__(self, reported: dict[str, int] | None = None, **special: list[str]) -> None:
        super().__init__([""] * 5, reported)
        self.special = special

    def items(self, base: str, query: str) -> list[dict[str, Any]]:
        usual, self.kinds = self.kinds, self.special.get(query, self.kinds)
        try:
            found = super().items(base, query)
        finally:
            self.kinds = usual
        for item in found:
            if item["kind"].startswith("shared/"):
                item["url"] = f"{base}/good/{item['kind']}"
        return found


@pytest.fixture(autouse=True)
def _loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    allow_loopback(monkeypatch)


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A set of which people have chosen the queries; their texts, in the order in which they are settled."""
    folder = tmp_path_factory.mktemp("stages")
    return folder, sorted(
        collect_with_decisions(folder, "web", QUERIES), key=lambda text: generated_query_id(text, "zh")
    )


@pytest.fixture
def server() -> Iterator[Loopback]:
    with loopback(MixedWeb()) as served:
        yield served


@pytest.fixture
def made(stages: tuple[Path, list[str]], tmp_path: Path, server: Loopback) -> Callable[..., GeneratedDefinition]:
    """The definition of such a set."""

    def make(web: MixedWeb, **collect: Any) -> GeneratedDefinition:
        server.answer = web
        shutil.copytree(stages[0], tmp_path / "sets", dirs_exist_ok=True)
        return make_definition(tmp_path / "sets", server.url, **{**RULES, **collect})

    return make


Made = Callable[..., GeneratedDefinition]


def build(wanted: GeneratedDefinition, **run: Any) -> BuildResult:
    with active_run(BuildRun(**run)):
        return build_set(wanted)


def want(wanted: GeneratedDefinition, *items: str) -> list[Override]:
    words = [Override(item, "rescue", item, "", "值得留下", "lin", "rejects", str(n)) for n, item in enumerate(items)]
    decision_log.append_decisions(wanted.out / wanted.name, words)
    return words


def undo(wanted: GeneratedDefinition, word: Override) -> None:
    taken = Override(word.item, "undo", word.name, reviewer="lin", undoes=word.decision_id)
    decision_log.append_decisions(wanted.out / wanted.name, [taken])


def truth(result: BuildResult) -> dict[str, list[str]]:
    """By query the ends of the addresses of its images."""
    tables = set_files.read_set(result.path).tables
    texts = dict(zip(tables.queries["query_id"], tables.queries["text"], strict=True))
    urls = dict(zip(tables.images["image_id"], tables.images["source_url"], strict=True))
    found: dict[str, list[str]] = {text: [] for text in texts.values()}
    for row in tables.qrels.itertuples():
        found[texts[row.query_id]].append("/".join(urls[row.image_id].split("/")[3:]))
    return {text: sorted(images) for text, images in found.items()}


def ranks(result: BuildResult, text: str) -> list[str]:
    return [place.rpartition("/")[2] for place in truth(result)[text]]


def away(result: BuildResult) -> dict[str, dict[str, int]]:
    """What was turned away of queries and results, by stage."""
    found = {}
    for one in result.manifest["funnel"]:
        if one["kind"] in ("query", "result"):
            found[one["stage"]] = one["rejected"] | one["quarantined"] | one["pending"]
    return found


def told(result: BuildResult) -> dict[str, str]:
    """Why words are stale, by what they are about."""
    return {word.item: why for word, why in result.stale if isinstance(word, Override)}


def same_again(*results: BuildResult) -> None:
    for result in results:
        again = rebuild_tables(result.path)
        assert again.digest == result.manifest["content_digest"], result.path


@pytest.mark.slow
def test_a_query_with_too_few_results_goes_on_and_nothing_else_changes(
    made: Made, stages: tuple[Path, list[str]], server: Loopback
) -> None:
    text = stages[1][0]
    wanted = made(MixedWeb({text: 3}))
    first = build(wanted)
    assert away(first)["search"] == {"too_few_results": 1} and len(truth(first)) == 3
    (word,) = want(wanted, generated_query_id(text, "zh"))
    waiting = publish_decisions(first.path)
    assert not waiting.is_new and waiting.waiting_count == 1
    asked = len(server.asked)
    with active_run(BuildRun()):
        plan = plan_set(wanted)
        assert (plan["complete"], plan["images_at_most"], len(server.asked)) == (3, 5, asked)
    offline = build(wanted, offline=True)
    assert not offline.is_new and told(offline) == {
        word.item: "some of its images may still arrive: run the same command again"
    }
    second = build(wanted)
    assert second.version == 2 and truth(second) == truth(first) | {text: truth(second)[text]}
    assert ranks(second, text) == ["0", "1", "2"] and away(second)["search"] == {}
    assert second.manifest["decisions"] == {"in_effect": [word.decision_id], "stale": []}
    same_again(first, second)
    assert not build(wanted).is_new and publish_decisions(second.path).waiting_count == 0
    undo(wanted, word)
    third = build(wanted)
    assert third.manifest["content_digest"] == first.manifest["content_digest"] and third.version == 3


def test_without_a_connection_nothing_is_fetched_and_every_query_waits(made: Made, server: Loopback) -> None:
    wanted = made(MixedWeb())
    with active_run(BuildRun(offline=True)):
        collected = run_collect_stage(wanted, "topics.yaml")
    assert (collected.pending, collected.fetches, server.asked) == (QUERIES, 0, [])


@pytest.mark.slow
def test_a_wanted_query_stays_where_some_of_its_images_cannot_be_rendered(
    made: Made, stages: tuple[Path, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    text, other, *_ = stages[1]
    wanted = made(MixedWeb())
    render = steps.render_images

    def without_first(images: Any, places: Any, *more: Any) -> Any:
        """The first image of two queries cannot be drawn."""
        hit = [place for place, url in enumerate(images["file_name"]) if str(url) in lost]
        places = [str(wanted.out / "none") if place in hit else path for place, path in enumerate(places)]
        return render(images, places, *more)

    first = build(wanted)
    lost = {f"{wanted.collect.options['endpoint'].rpartition('/')[0]}/{truth(first)[one][0]}" for one in (text, other)}
    monkeypatch.setattr(steps, "render_images", without_first)
    shutil.rmtree(wanted.out / "web" / ".rendered")
    want(wanted, generated_query_id(text, "zh"))
    second = build(wanted)
    assert away(second)["answers"] == {"too_few_images": 1}
    assert len(truth(second)[text]) == 2 and other not in truth(second)
