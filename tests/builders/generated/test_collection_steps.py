"""Images collected from a small web with every fault: each ends where it belongs, and 12 of 12 are found."""

import io
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from PIL import Image

from builders.generated.collection_steps import WebCollection, collect_images
from builders.generated.definition import GeneratedDefinition
from querytruth.backends.steps import BuildRun, active_run
from querytruth.definitions import NearDuplicateOptions
from querytruth.records import to_arrow
from querytruth.sets.ledger import Ledger
from tests.flows.image_web import (
    EXPECTED_FETCHED,
    EXPECTED_SCREENED,
    FakeImageWeb,
    allow_loopback,
    make_definition,
    queries,
    render_image,
)
from tests.flows.stub_generator import Listener
from tests.loopback import CannedResponse, LoopbackAnswer, loopback

WORDS = ("猫", "公园里的狗", "red bicycle")


@pytest.fixture(autouse=True)
def _loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    allow_loopback(monkeypatch)


def mixed(faults: list[str]) -> list[str]:
    """24 results, of which 12 are good; the last one is, so that all are looked at."""
    assert len(faults) == 12
    return [kind for fault in faults for kind in (fault, "")]


def collect(
    wanted: GeneratedDefinition, chosen: pd.DataFrame, *, connected: bool = True
) -> tuple[WebCollection, Ledger]:
    ledger = Ledger()
    with active_run(BuildRun()):
        return collect_images(wanted, chosen, ledger, connected=connected), ledger


def buckets(ledger: Ledger, stage: str) -> dict[tuple[str, str], int]:
    one = next(found for found in ledger.stages if found.stage == stage)
    counted = {name: getattr(one, name) for name in ("rejected", "quarantined", "pending")}
    return {(bucket, reason): n for bucket, reasons in counted.items() for reason, n in reasons.items()}


def truth(found: WebCollection) -> dict[str, list[str]]:
    return found.collected.relevant_results.groupby("query_id")["url"].agg(list).to_dict()


FIRST = ["advertisement", "told_small", "told_long", "gone", "forbidden", "page", "cut", "half", "flood", "silent"]
FIRST += ["small", "twin"]
SECOND = ["no_address", "robots", "tagged", "inward", "circle", "local_file", "bomb", "packed_bomb", "busy", "torn"]
SECOND += ["dribble", "repeated"]


@pytest.mark.parametrize("search", ["baidu", "openverse", "wikimedia_commons"])
@pytest.mark.parametrize("faults", [FIRST, SECOND], ids=["first", "second"])
@pytest.mark.thorough
def test_every_fault_ends_in_the_ledger_and_twelve_of_twelve_are_found(
    tmp_path: Path, search: str, faults: list[str]
) -> None:
    if search != "baidu":  # only Baidu has advertisements
        faults = ["gone" if fault == "advertisement" else fault for fault in faults]
    kinds = mixed(faults)
    kinds[0], kinds[1] = kinds[1], kinds[0]  # the first one is good: others repeat it
    with loopback(FakeImageWeb(kinds)) as server:
        found, ledger = collect(make_definition(tmp_path, server.url, search), queries(*WORDS))
    expected = {stage: Counter[tuple[str, str]]() for stage in ("results", "images")}
    for fault in faults:
        stage = "results" if fault in EXPECTED_SCREENED else "images"
        expected[stage][(EXPECTED_SCREENED | EXPECTED_FETCHED)[fault]] += len(WORDS)
    assert buckets(ledger, "results") == expected["results"]
    assert buckets(ledger, "images") == expected["images"]
    assert [len(urls) for urls in truth(found).values()] == [12] * len(WORDS)
    assert all("/good/" in url for urls in truth(found).values() for url in urls)
    assert found.figures["pictures"] == 12 * len(WORDS) == len(found.collected.images)


def plain(count: int) -> FakeImageWeb:
    return FakeImageWeb([""] * count)


class Same(FakeImageWeb):
    """All queries find the same image third: at one address, or (`copies`) each at an address of its own."""

    copies = False

    def items(self, base: str, query: str) -> list[dict[str, Any]]:
        found = super().items(base, query)
        found[2]["url"] = f"{base}/shared/{len(query) if self.copies else 0}"
        return found

    def image(self, kind: str, path: str, base: str) -> LoopbackAnswer:
        if kind == "shared":
            larger = 9 - int(path[-1])  # two of the three are the same file
            return CannedResponse(render_image("/shared", (160 + 8 * larger, 120 + 6 * larger)))
        return super().image(kind, path, base)


def few(url: str, folder: Path, **keys: Any) -> GeneratedDefinition:
    return make_definition(folder, url, **{"first": 6, "keep": 4, **keys})


def test_the_same_image_at_two_addresses_is_found_and_true_for_both_queries(tmp_path: Path) -> None:
    web = Same([""] * 6)
    web.copies = True
    with loopback(web) as server:
        merged, ledger = collect(few(server.url, tmp_path), queries(*WORDS))
        dropped, gone = collect(few(server.url, tmp_path, same_image="drop"), queries(*WORDS))
    assert len(truth(merged)) == 3 and merged.figures["same_picture_at_other_addresses"] == 2
    assert buckets(ledger, "duplicates") == {("rejected", "exact_duplicate"): 1, ("rejected", "near_duplicate"): 1}
    kept = merged.collected.relevant_results
    assert kept["image_id"].nunique() == len(merged.collected.images) == 10
    assert set(kept.groupby("query_id")["image_id"].nunique()) == {4}
    assert sorted(merged.collected.duplicates["matched_by"].dropna()) == ["bytes", "views"]
    assert len(truth(dropped)) == 1 and buckets(gone, "queries") == {("rejected", "image_used_before"): 2}


def test_only_images_of_the_licences_asked_for_are_fetched(tmp_path: Path) -> None:
    with loopback(plain(12)) as server:
        found, ledger = collect(
            make_definition(tmp_path, server.url, "openverse", first=12, keep=5, licences=["cc0"]), queries(*WORDS)
        )
        asked = [asked.path for asked in server.asked if asked.path.startswith("/good/")]
    assert buckets(ledger, "results") == {("rejected", "licence_not_allowed"): 18}
    assert set(found.collected.relevant_results["licence"]) == {"cc0-1.0"} and len(asked) == 15
    assert found.figures["licences"] == {"cc0": 15}


def test_robots_are_respected_unless_the_definition_says_otherwise(tmp_path: Path) -> None:
    with loopback(FakeImageWeb(["robots", "tagged", "", ""])) as server:
        polite, _ = collect(few(server.url, tmp_path, keep=2), queries("猫"))
        bold, _ = collect(few(server.url, tmp_path, keep=4, respect_robots=False), queries("猫"))
    assert len(polite.collected.images) == 2 and len(bold.collected.images) == 4


def test_a_host_is_told_whom_to_complain_to_and_the_set_is_not(tmp_path: Path) -> None:
    with loopback(plain(6)) as server:
        wanted = few(server.url, tmp_path, contact="mail@example.org")
        collect(wanted, queries("猫"))
        assert {asked.headers["user-agent"] for asked in server.asked} == {"querytruth/1.0 (mail@example.org)"}
    assert "example.org" not in wanted.model_dump_json()


def test_images_that_are_gone_are_had_from_where_else_they_lie(tmp_path: Path) -> None:
    class Twice(FakeImageWeb):
        def items(self, base: str, query: str) -> list[dict[str, Any]]:
            found = super().items(base, query)
            return [item | {"also": item["url"].replace("/gone/", "/good/")} for item in found]

    with loopback(Twice(["gone"] * 6)) as server:
        found, ledger = collect(few(server.url, tmp_path), queries("猫"))
    assert buckets(ledger, "queries") == {} and len(found.collected.images) == 4
    assert all("/good/" in image.url and not image.reason for image in found.images.values())


HOSTILE = [
    "=cmd|' /C calc'!A0",
    "<script>alert(1)</script>",
    "{0.__class__}",
    "..\\..\\x",
    "a\nb",
    "$(rm -rf /)",
    "\ud800",
]


@pytest.mark.parametrize("search", ["baidu", "openverse", "wikimedia_commons"])
def test_what_the_web_writes_stays_data(tmp_path: Path, search: str) -> None:
    class Hostile(FakeImageWeb):
        def items(self, base: str, query: str) -> list[dict[str, Any]]:
            found = super().items(base, query)
            odd = [{**found[0], "url": f"{base}/good/{text}", "title": text} for text in HOSTILE]
            return odd + [item | {"title": text} for item, text in zip(found, HOSTILE, strict=True)]

    with loopback(Hostile([""] * len(HOSTILE))) as server:
        found, ledger = collect(make_definition(tmp_path, server.url, search, first=14, keep=7), queries("猫", "狗"))
    assert len(truth(found)) == 1, "the odd addresses are the same for both queries"
    to_arrow("ledger", ledger.rows())
    captions = set(found.collected.relevant_results["caption"].dropna())
    assert captions and not [text for text in captions if "<" in text or "\n" in text or "\ud800" in text]
    inside = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert all((tmp_path / "web") in path.parents for path in inside)


@pytest.mark.thorough
def test_progress_names_hosts_rate_and_failures(tmp_path: Path) -> None:
    listener = Listener()
    with loopback(FakeImageWeb(["", "gone", "", "page", "", ""])) as server, active_run(BuildRun(listener)):
        wanted = few(server.url, tmp_path)
        collect_images(wanted, queries(*WORDS), Ledger(), connected=True)
        first, listener.lines = listener.lines, []
        again = collect_images(wanted, queries(*WORDS), Ledger(), connected=True)
        collect_images(wanted, queries(*WORDS), Ledger(), connected=False)
    assert listener.bars[0] == ("search images", 3, "queries")
    assert listener.bars[1] == ("fetch images", 12, "images")
    assert "12 images from 1 host, 18 addresses fetched now (" in first[-1]
    assert first[-1].endswith("; failed: 3 not an image, 3 not found")
    assert len(listener.lines) == 1 and "fetched now" not in listener.lines[0] and again.fetch_count == 0
    assert again.figures["fetched"]["failed"] == {"not_an_image": 3, "not_found": 3}
    assert again.figures["fetched"]["most"][0] | {"host": ""} == {"host": "", "there": 12, "failed": 6}


def test_whose_word_counts_for_an_address_of_two_queries_does_not_hang_on_the_table(tmp_path: Path) -> None:
    """The first query by id tells where else the image lies; the others hear of other places."""

    class Gone(FakeImageWeb):
        def items(self, base: str, query: str) -> list[dict[str, Any]]:
            found = super().items(base, query)
            found[0] |= {"url": f"{base}/gone/shared", "also": f"{base}/good/{len(query)}/0"}
            return found

    chosen = queries(*WORDS).sort_values("query_id")
    with loopback(Gone([""] * 6)) as server:
        straight, _ = collect(few(server.url, tmp_path, same_url="merge"), chosen)
        turned, _ = collect(few(server.url, tmp_path, same_url="merge"), chosen[::-1])
    first = chosen["text"].iloc[0]
    shared = f"{server.url}/gone/shared"
    assert straight.images[shared].url == turned.images[shared].url == f"{server.url}/good/{len(first)}/0"


def test_mirrored_copies_are_the_same_where_that_is_asked_for(tmp_path: Path) -> None:
    class Mirrored(Same):
        def image(self, kind: str, path: str, base: str) -> LoopbackAnswer:
            if kind != "shared":
                return super().image(kind, path, base)
            whole, out = Image.open(io.BytesIO(render_image("/shared"))), io.BytesIO()
            turned = whole.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if path.endswith("5") else whole
            turned.save(out, "PNG")
            return CannedResponse(out.getvalue())

    web = Mirrored([""] * 6)
    web.copies = True
    with loopback(web) as server:
        plainly, _ = collect(few(server.url, tmp_path), queries("猫", "公园里的狗"))
        wanted = few(server.url, tmp_path).model_copy(update={"near_duplicates": NearDuplicateOptions(flips=True)})
        turned, _ = collect(wanted, queries("猫", "公园里的狗"))
    assert (len(plainly.collected.images), len(turned.collected.images)) == (8, 7)
