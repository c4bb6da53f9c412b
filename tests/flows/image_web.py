"""A small web on this machine: three image searches in the shapes of real ones, and pictures of which every second one
has a fault of its own."""

from __future__ import annotations

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
from PIL import Image

from backends.web.guarded_web import GuardedWeb
from backends.web.web_records import WebLimits
from builders.generated.pool_review import query_id
from builders.records import stable_hash
from flows import web_collection
from flows.definitions.generated import GeneratedDefinition
from flows.topics_and_objects import objects_stage, topics_stage
from tests.backends.web.hostile_web import HERE, drawn
from tests.flows.stub_generator import Stub
from tests.loopback import Answer, Asked, Sent, dribble, flood, loopback, raw, reset, silent

BOMB = b"GIF89a" + (60_000).to_bytes(2, "little") * 2 + b"\x80\0\0" + b"\0" * 6 + b"," + b"\0" * 20 + b";"
LIMITS = {"seconds": 4, "concurrency": 16, "per_host": 16, "interval": 0, "max_bytes": 100_000, "redirects": 3}
ENDPOINTS = {"baidu": "/acjson", "openverse": "/v1/images/", "wikimedia_commons": "/w/api.php"}


class ImageWeb:
    """Answers searches and serves pictures. `kinds`: what the results of every query are, by rank; '' is a good
    picture of its own. `reported`: by query how many results there are said to be; `patience`: the seconds for which a
    busy host wants to be left alone."""

    patience = 3600

    def __init__(self, kinds: list[str], reported: dict[str, int] | None = None) -> None:
        self.kinds, self.reported = kinds, reported or {}

    def __call__(self, asked: Asked) -> Answer:
        parts = urlsplit(asked.path)
        given = {name: values[0] for name, values in parse_qs(parts.query).items()}
        base = f"http://{asked.headers['host']}"
        match parts.path:
            case "/robots.txt":
                return Sent("User-agent: *\nDisallow: /robots/\n", headers={"Content-Type": "text/plain"})
            case "/acjson":
                return Sent(baidu_page(self.items(base, given["word"]), self.count(given["word"])))
            case "/v1/images/":
                page, size = int(given["page"]), int(given["page_size"])
                items = self.items(base, given["q"])[(page - 1) * size : page * size]
                return Sent(openverse_page(items, self.count(given["q"])))
            case "/w/api.php":
                query = given["gsrsearch"].removesuffix(" filetype:bitmap")
                return Sent(commons_page(self.items(base, query), self.count(query)))
        return self.picture(asked.path.split("/")[1], asked.path, base)

    def count(self, query: str) -> int:
        return self.reported.get(query, 1500)

    def items(self, base: str, query: str) -> list[dict[str, Any]]:
        """The results; a good one lies below `/good/`."""
        own = hashlib.sha256(query.encode()).hexdigest()[:12]
        found = []
        for rank, kind in enumerate(self.kinds):
            url = f"{base}/{kind or 'good'}/{own}/{rank}"
            found.append({"url": url, "kind": kind, "title": f"{query} <b>{rank}</b>", "width": 640, "height": 480})
        for item in found:
            if item["kind"] == "repeated":
                item["url"] = found[0]["url"]
            elif item["kind"] == "no_address":
                item["url"] = "javascript:alert(1)"
            elif item["kind"] == "told_small":
                item |= {"width": 111, "height": 111}
            elif item["kind"] == "told_long":
                item |= {"width": 500, "height": 200}
        return found

    def picture(self, kind: str, path: str, base: str) -> Answer:
        whole = shown(path)
        jpeg = b"HTTP/1.1 200 OK\r\nContent-Type: image/jpeg\r\nConnection: close\r\n"
        match kind:
            case "good" | "robots":
                return Sent(whole)
            case "gone":
                return Sent(status=404)
            case "forbidden":
                return Sent(status=403)
            case "page":
                return Sent("<!doctype html><h1>not here</h1>" * 99, headers={"Content-Type": "image/jpeg"})
            case "cut":
                return raw(jpeg + b"Content-Length: 99999\r\n\r\n" + whole)
            case "half":
                return Sent(whole[: len(whole) // 2])
            case "flood":
                return flood(jpeg + b"\r\n" + whole, b"\xff" * 65536)
            case "silent":
                return silent(4)
            case "dribble":
                return dribble(jpeg, b"X-More: 1\r\n", every=0.2, most=8)
            case "small":
                return Sent(drawn(stable_hash(path) % 2**32, (120, 90)))
            case "twin":
                return Sent(shown("/".join(["", "good", *path.split("/")[2:3], "0"]), (320, 240), quality=70))
            case "tagged":
                return Sent(whole, headers={"X-Robots-Tag": "noindex, noai"})
            case "inward":
                return Sent(status=302, headers={"Location": "http://169.254.169.254/latest/meta-data"})
            case "circle":
                return Sent(status=302, headers={"Location": f"{base}{path}x"})
            case "local_file":
                return Sent(status=302, headers={"Location": "file:///etc/passwd"})
            case "bomb":
                return Sent(BOMB)
            case "packed_bomb":
                return Sent(gzip.compress(whole + b"\0" * 3_000_000), headers={"Content-Encoding": "gzip"})
            case "busy":
                return Sent(status=429, headers={"Retry-After": str(self.patience)})
            case "torn":
                return reset(jpeg)
        return Sent(status=404)


# Which bucket and reason each fault ends with; those above the line are seen before anything is fetched.
SCREENED = {
    "advertisement": ("rejected", "advertisement"),
    "told_small": ("rejected", "too_small"),
    "told_long": ("rejected", "too_elongated"),
    "repeated": ("rejected", "repeated_url"),
    "no_address": ("rejected", "no_picture_url"),
}
FETCHED = {
    "gone": ("quarantined", "not_found"),
    "forbidden": ("quarantined", "forbidden"),
    "page": ("quarantined", "not_a_picture"),
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
def shown(path: str, size: tuple[int, int] = (160, 120), quality: int = 80) -> bytes:
    """A picture of its own for every path."""
    data = drawn(stable_hash(path) % 2**32)
    if (size, quality) == ((160, 120), 80):
        return data
    out = io.BytesIO()
    Image.open(io.BytesIO(data)).resize(size, Image.Resampling.BICUBIC).save(out, "JPEG", quality=quality)
    return out.getvalue()


def baidu_page(items: list[dict[str, Any]], count: int) -> bytes:
    """As acjson gives it: what is no JSON in places, a plain copy of each address, an empty item at the end."""
    told = [
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
    text = json.dumps({"listNum": count, "displayNum": 100 * count, "data": [*told, {}]})
    return text.replace("</b>", "<\\/b>\\'\n").encode()


def openverse_page(items: list[dict[str, Any]], count: int) -> bytes:
    told = [
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
    return json.dumps({"result_count": count, "results": told}).encode()


def commons_page(items: list[dict[str, Any]], count: int) -> bytes:
    def info(item: dict[str, Any]) -> dict[str, Any]:
        said = {"License": {"value": "cc-by-sa-4.0"}, "Artist": {"value": "<a href='x'>B. Photographer</a>"}}
        sizes = {"width": item["width"], "height": item["height"]}
        return {"url": item["url"], "descriptionurl": "http://pages.example/p", "extmetadata": said, **sizes}

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


def let_loopback_through(monkeypatch: pytest.MonkeyPatch, **limits: Any) -> None:
    """Have flows fetch from this machine, which no definition can, and impatiently."""
    quick = {"connect": 1.0, "silence": 0.8, "pause": 0.01, **limits}

    def opened(given: WebLimits, **options: Any) -> GuardedWeb:
        return GuardedWeb(replace(given, **quick), networks_for_tests=HERE, **options)

    monkeypatch.setattr(web_collection, "GuardedWeb", opened)


def queries(*texts: str, topic: str = "动物") -> pd.DataFrame:
    """What people kept."""
    rows = [(query_id(text, "zh"), text, topic) for text in texts]
    return pd.DataFrame(rows, columns=["query_id", "text", "topic"], dtype="str")


def definition(folder: Path, url: str, search: str = "baidu", **collect: Any) -> GeneratedDefinition:
    """A set whose image search is on this machine."""
    limits = {**LIMITS, **collect.pop("limits", {})}
    given = {"search": search, "options": {"endpoint": url + ENDPOINTS[search]}, "limits": limits, **collect}
    return GeneratedDefinition.model_validate({"kind": "generated", "name": "web", "out": folder, "collect": given})


def keep_only(table: Path, count: int) -> list[str]:
    """Fill in a handed-out table as a person would who keeps so many rows; their texts."""
    mark, *lines = table.read_text("utf-8-sig").splitlines(keepends=True)
    rows = list(csv.DictReader(io.StringIO("".join(lines), newline="")))
    for row in rows[count:]:
        row["decision"] = "drop"
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    table.write_text(mark + text.getvalue(), "utf-8-sig", newline="")
    return [row["text"] for row in rows[:count]]


def with_people(folder: Path, name: str, count: int) -> list[str]:
    """The first two stages of a set, of which people kept so many objects; their texts."""
    with loopback(_chat) as server:
        options = {"base_url": server.url, "name": "stub", "pause": 0.001}
        topics = {"model": "openai_compatible", "options": options, "rounds": 2, "at_once": 1}
        objects = {"embedder": "char_ngrams", "rounds": 1}
        wanted = {"kind": "generated", "name": name, "out": folder, "topics": topics, "objects": objects}
        checked = GeneratedDefinition.model_validate(wanted)
        topics_stage(checked, "g.yaml")
        objects_stage(checked, "g.yaml")
    return keep_only(folder / name / "review" / "objects.csv", count)


def _chat(asked: Asked) -> Answer:
    text = Stub(talks=0, refuses=0).reply(str(asked.json["messages"][0]["content"]))
    return Sent({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]})
