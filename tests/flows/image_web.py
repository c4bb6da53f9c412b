"""A small web on this machine: three image searches in the shapes of real ones, and images of which every second one
has a fault of its own."""

import csv
import gzip
import hashlib
import io
import json
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pandas as pd
import pytest

from builders.generated import collection_steps as web_collection
from builders.generated.definition import GeneratedDefinition
from builders.generated.pool_tables import generated_query_id
from builders.generated.stages import run_objects_stage, run_topics_stage
from querytruth.backends.web.crawler_client import CrawlerClient
from querytruth.backends.web.web_records import WebLimits
from querytruth.records import stable_hash
from tests.backends.web.hostile_web import LOOPBACK_NETWORKS, draw_image
from tests.flows.stub_generator import StubGenerator
from tests.loopback import (
    CannedResponse,
    LoopbackAnswer,
    ReceivedRequest,
    loopback,
    reset_connection,
    send_endlessly,
    send_raw,
    send_slowly,
    stay_silent,
)
from tests.worlds import chat_reply

BOMB = b"GIF89a" + (60_000).to_bytes(2, "little") * 2 + b"\x80\0\0" + b"\0" * 6 + b"," + b"\0" * 20 + b";"
LIMITS = {"seconds": 4, "concurrency": 16, "per_host": 16, "interval": 0, "max_bytes": 100_000, "redirects": 3}
ENDPOINTS = {"baidu": "/acjson", "openverse": "/v1/images/", "wikimedia_commons": "/w/api.php"}


class FakeImageWeb:
    """Answers searches and serves images. `kinds`: what the results of every query are, by rank; '' is a good
    image of its own. `reported`: by query how many results there are said to be; `patience`: the seconds for which a
    busy host wants to be left alone."""

    patience = 3600

    def __init__(self, kinds: list[str], reported: dict[str, int] | None = None) -> None:
        self.kinds, self.reported = kinds, reported or {}

    def __call__(self, request: ReceivedRequest) -> LoopbackAnswer:
        parts = urlsplit(request.path)
        given = {name: values[0] for name, values in parse_qs(parts.query).items()}
        base = f"http://{request.headers['host']}"
        match parts.path:
            case "/robots.txt":
                return CannedResponse("User-agent: *\nDisallow: /robots/\n", headers={"Content-Type": "text/plain"})
            case "/acjson":
                return CannedResponse(baidu_page(self.items(base, given["word"]), self.count(given["word"])))
            case "/v1/images/":
                page, size = int(given["page"]), int(given["page_size"])
                items = self.items(base, given["q"])[(page - 1) * size : page * size]
                return CannedResponse(openverse_page(items, self.count(given["q"])))
            case "/w/api.php":
                query = given["gsrsearch"].removesuffix(" filetype:bitmap")
                return CannedResponse(commons_page(self.items(base, query), self.count(query)))
        return self.image(request.path.split("/")[1], request.path, base)

    def count(self, query: str) -> int:
        return self.reported.get(query, 1500)

    def items(self, base: str, query: str) -> list[dict[str, Any]]:
        """The results; a good one lies below `/good/`."""
        own = hashlib.sha256(query.encode()).hexdigest()[:12]
        items_found = []
        for rank, kind in enumerate(self.kinds):
            url = f"{base}/{kind or 'good'}/{own}/{rank}"
            items_found.append(
                {"url": url, "kind": kind, "title": f"{query} <b>{rank}</b>", "width": 640, "height": 480}
            )
        for item in items_found:
            if item["kind"] == "repeated":
                item["url"] = items_found[0]["url"]
            elif item["kind"] == "no_address":
                item["url"] = "javascript:alert(1)"
            elif item["kind"] == "told_small":
                item |= {"width": 111, "height": 111}
            elif item["kind"] == "told_long":
                item |= {"width": 500, "height": 200}
        return items_found

    def image(self, kind: str, path: str, base: str) -> LoopbackAnswer:
        whole = render_image(path)
        jpeg = b"HTTP/1.1 200 OK\r\nContent-Type: image/jpeg\r\nConnection: close\r\n"
        match kind:
            case "good" | "robots":
                return CannedResponse(whole)
            case "gone":
                return CannedResponse(status=404)
            case "forbidden":
                return CannedResponse(status=403)
            case "page":
                return CannedResponse("<!doctype html><h1>not here</h1>" * 99, headers={"Content-Type": "image/jpeg"})
            case "cut":
                return send_raw(jpeg + b"Content-Length: 99999\r\n\r\n" + whole)
            case "half":
                return CannedResponse(whole[: len(whole) // 2])
            case "flood":
                return send_endlessly(jpeg + b"\r\n" + whole, b"\xff" * 65536)
            case "silent":
                return stay_silent(4)
            case "dribble":
                return send_slowly(jpeg, b"X-More: 1\r\n", every=0.2, most=8)
            case "small":
                return CannedResponse(draw_image(stable_hash(path) % 2**32, (120, 90)))
            case "twin":
                first = render_image("/".join(["", "good", *path.split("/")[2:3], "0"]))
                return CannedResponse(first[:2] + b"\xff\xfe\x00\x06twin" + first[2:])  # with a comment
            case "tagged":
                return CannedResponse(whole, headers={"X-Robots-Tag": "noindex, noai"})
            case "inward":
                return CannedResponse(status=302, headers={"Location": "http://169.254.169.254/latest/meta-data"})
            case "circle":
                return CannedResponse(status=302, headers={"Location": f"{base}{path}x"})
            case "local_file":
                return CannedResponse(status=302, headers={"Location": "file:///etc/passwd"})
            case "bomb":
                return CannedResponse(BOMB)
            case "packed_bomb":
                return CannedResponse(gzip.compress(whole + b"\0" * 3_000_000), headers={"Content-Encoding": "gzip"})
            case "busy":
                return CannedResponse(status=429, headers={"Retry-After": str(self.patience)})
            case "torn":
                return reset_connection(jpeg)
        return CannedResponse(status=404)


# Which bucket and reason each fault ends with; those above the line are seen before anything is fetched.
EXPECTED_SCREENED = {
    "advertisement": ("rejected", "advertisement"),
    "told_small": ("rejected", "too_small"),
    "told_long": ("rejected", "too_elongated"),
    "repeated": ("rejected", "repeated_url"),
    "no_address": ("rejected", "no_image_url"),
}
EXPECTED_FETCHED = {
    "gone": ("quarantined", "not_found"),
    "forbidden": ("quarantined", "forbidden"),
    "page": ("quarantined", "not_an_image"),
    "cut": ("pending", "incomplete"),
    "half": ("quarantined", "cannot_be_decoded"),
    "flood": ("quarantined", "too_many_bytes"),
    "silent": ("pending", "timeout"),
    "dribble": ("pending", "deadline"),
    "small": ("rejected", "too_small"),
    "twin": ("rejected", "near_duplicate"),
    "robots": ("rejected", "forbidden_by_robots"),
    "tagged": ("rejected", "forbidden_by_robots_tag"),
    "inward": ("quarantined", "address_not_public"),
    "circle": ("quarantined", "too_many_redirects"),
    "local_file": ("quarantined", "scheme_not_allowed"),
    "bomb": ("quarantined", "too_many_pixels"),
    "packed_bomb": ("quarantined", "too_many_bytes"),
    "busy": ("pending", "rate_limited"),
    "torn": ("pending", "connection_failed"),
}


@lru_cache(maxsize=4096)
def render_image(path: str, size: tuple[int, int] = (160, 120)) -> bytes:
    """An image of its own for every path."""
    return draw_image(stable_hash(path) % 2**32, size)


def baidu_page(items: list[dict[str, Any]], count: int) -> bytes:
    """As acjson gives it: what is no JSON in places, a plain copy of each address, an empty item at the end."""
    results = [
        {
            "replaceUrl": [
                {"ObjURL": url, "FromURL": "http://pages.example/p"} for url in (item["url"], item.get("also")) if url
            ],
            "fromPageTitle": item["title"],
            "width": item["width"],
            "height": item["height"],
            "adType": "1" if item["kind"] == "advertisement" else "0",
        }
        for item in items
    ]
    text = json.dumps({"listNum": count, "displayNum": 100 * count, "data": [*results, {}]})
    return text.replace("</b>", "<\\/b>\\'\n").encode()


def openverse_page(items: list[dict[str, Any]], count: int) -> bytes:
    results = [
        {
            "url": item["url"],
            "title": item["title"],
            "foreign_landing_url": "http://pages.example/p",
            "creator": "A. Photographer",
            "license": "by-sa" if number % 2 else "cc0",
            "license_version": "4.0" if number % 2 else "1.0",
            "width": item["width"],
            "height": item["height"],
        }
        for number, item in enumerate(items)
    ]
    return json.dumps({"result_count": count, "results": results}).encode()


def commons_page(items: list[dict[str, Any]], count: int) -> bytes:
    def info(item: dict[str, Any]) -> dict[str, Any]:
        metadata = {"License": {"value": "cc-by-sa-4.0"}, "Artist": {"value": "<a href='x'>B. Photographer</a>"}}
        sizes = {"width": item["width"], "height": item["height"]}
        return {"url": item["url"], "descriptionurl": "http://pages.example/p", "extmetadata": metadata, **sizes}

    pages = {
        str(number): {
            "pageid": number,
            "index": number,
            "title": f"File:{item['title']}.jpg",
            "imageinfo": [info(item)],
        }
        for number, item in enumerate(items, start=1)
    }
    return json.dumps({"batchcomplete": "", "query": {"searchinfo": {"totalhits": count}, "pages": pages}}).encode()


def allow_loopback(monkeypatch: pytest.MonkeyPatch, **limits: Any) -> None:
    """Have flows fetch from this machine, which no definition can, and impatiently."""
    quick = {"connect": 1.0, "silence": 0.8, "pause": 0.01, **limits}

    def opened(given: WebLimits, **options: Any) -> CrawlerClient:
        return CrawlerClient(replace(given, **quick), networks_for_tests=LOOPBACK_NETWORKS, **options)

    monkeypatch.setattr(web_collection, "CrawlerClient", opened)


def queries(*texts: str, topic: str = "动物") -> pd.DataFrame:
    """What people kept."""
    rows = [(generated_query_id(text, "zh"), text, topic) for text in texts]
    return pd.DataFrame(rows, columns=["query_id", "text", "topic"], dtype="str")


def make_definition(folder: Path, url: str, search: str = "baidu", **collect: Any) -> GeneratedDefinition:
    """A set whose image search is on this machine."""
    limits = {**LIMITS, **collect.pop("limits", {})}
    given = {"search": search, "options": {"endpoint": url + ENDPOINTS[search]}, "limits": limits, **collect}
    return GeneratedDefinition.model_validate(
        {"kind": "generated", "name": "web", "out": folder, "lose_at_most": None, "collect": given}
    )


def keep_first_rows(table: Path, count: int) -> list[str]:
    """Fill in a handed-out table as a person would who keeps so many rows; their texts."""
    rows = list(csv.DictReader(io.StringIO(table.read_text("utf-8-sig"), newline="")))
    for row in rows[count:]:
        row["decision"] = "drop"
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    table.write_text(text.getvalue(), "utf-8-sig", newline="")
    return [row["text"] for row in rows[:count]]


def collect_with_decisions(folder: Path, name: str, count: int) -> list[str]:
    """The first two stages of a set, of which people kept so many objects; their texts."""
    with loopback(_chat) as server:
        options = {"base_url": server.url, "name": "stub", "pause": 0.001}
        topics = {"model": "openai_compatible", "options": options, "rounds": 2, "parallel_questions": 1}
        objects = {"embedder": "char_ngrams", "rounds": 1}
        definition_values = {"kind": "generated", "name": name, "out": folder, "topics": topics, "objects": objects}
        checked = GeneratedDefinition.model_validate(definition_values)
        run_topics_stage(checked, "g.yaml")
        run_objects_stage(checked, "g.yaml")
    return keep_first_rows(folder / name / "review" / "objects.csv", count)


def _chat(request: ReceivedRequest) -> LoopbackAnswer:
    return chat_reply(StubGenerator(talk_rate=0, refusal_rate=0).reply(str(request.json["messages"][0]["content"])))
