"""From a folder of photos to a set: every query and judgment against an oracle of plain dictionaries."""

import csv
import json
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from querytruth.sets.set_files import read_set
from tests.command_runner import invoke
from tests.drawn_albums import PEOPLE, PLACES, DrawnPhoto, draw_album, write_album

MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]


def list_answers(photos: list[DrawnPhoto], events: Path) -> dict[str, tuple[set[str], set[str]]]:
    """By English name of a tag: the photos that have it, and those that certainly do not."""
    answers: dict[str, tuple[set[str], set[str]]] = {}
    names = {photo.name for photo in photos}

    def add(tag: str, yes: set[str], known: set[str]) -> None:
        former = answers.get(tag, (set(), known))
        answers[tag] = (former[0] | yes, (former[1] & known) - yes - former[0])

    faces = {photo.name for photo in photos if photo.has_faces}
    for person in PEOPLE:
        add(person, {one.name for one in photos if person in one.people | one.listed}, faces)
    placed = {one.name for one in photos if one.city}
    for part in (lambda city: city, lambda city: PLACES[city][0], lambda city: PLACES[city][1]):
        for tag in {part(city) for city in PLACES}:
            add(tag, {one.name for one in photos if one.city and part(one.city) == tag}, placed)
    for keyword in {word for one in photos for word in one.keywords}:
        add(keyword, {one.name for one in photos if keyword in one.keywords}, set())
    for stars in (3, 5):
        add(f"{stars} stars", {one.name for one in photos if one.rating == stars}, set())
    dated = {one.name for one in photos if one.taken_at}
    tags: dict[str, set[str]] = {}
    for one in photos:
        if one.taken_at:
            south = one.city == "Sydney"
            season = ("winter", "spring", "summer", "autumn")[(one.taken_at.month % 12 // 3 + 2 * south) % 4]
            year, first = one.taken_at.year, one.taken_at.year - (one.taken_at.month < 3)
            years = f"{first}/{(first + 1) % 100:02}" if one.taken_at.month in (12, 1, 2) else str(year)
            month = f"{MONTHS[one.taken_at.month - 1]} {year}"
            for tag in (str(year), month, f"{one.taken_at.day} {month}", f"{season} of {years}"):
                tags.setdefault(tag, set()).add(one.name)
    for tag, yes in tags.items():
        add(tag, yes, dated)
    with events.open(encoding="utf-8-sig") as file:
        for row in csv.DictReader(file):
            start, end = datetime.fromisoformat(row["start"]), datetime.fromisoformat(row["end"])
            inside = {one.name for one in photos if one.taken_at and start <= one.taken_at <= end}
            for column in ("event", "trip"):
                if row[column]:
                    add(row[column], inside, dated)
    assert names
    return answers


def judge_by_oracle(query: Any, photos: list[DrawnPhoto], answers: dict[str, tuple[set[str], set[str]]]) -> Any:
    """The right images by name with their grades, and those that may be judged wrong."""
    labels = [answers[label] for label in query.labels]
    people = {one.name: one.people | one.listed for one in photos}
    faces = {one.name: len(one.people) + one.unnamed for one in photos}
    marked = {one.name for one in photos if one.has_faces}
    unnamed = {one.name for one in photos if one.unnamed}
    if query.family == "people/only":
        alone = {name for name in labels[0][0] & marked if len(people[name]) == 1 and name not in unnamed}
        return dict.fromkeys(alone, 2), (labels[0][0] & marked) - alone
    if query.family == "people/without":
        without = {name for name in labels[0][0] & marked if query.labels[1] not in people[name]} - unnamed
        return dict.fromkeys(without, 2), labels[0][0] & labels[1][0]
    if query.family == "people/group":
        group = {name for name in labels[0][0] if max(faces[name], len(people[name])) >= 3}
        grades = {name: 2 if len(people[name]) >= 3 else 1 for name in group}
        return grades, (labels[0][0] & marked) - group
    right = set.intersection(*[yes for yes, _ in labels])
    wrong = {
        name
        for missing, (_, no) in enumerate(labels)
        for name in no
        if all(name in yes for other, (yes, _) in enumerate(labels) if other != missing)
    }
    return dict.fromkeys(right, 2), wrong if len(labels) > 1 else set()


def check_set(folder: Path, photos: list[DrawnPhoto]) -> Any:
    tables = read_set(folder / "datasets/photos/v1").tables
    answers = list_answers(photos, folder / "album.facts.events.csv")
    file_of = dict(zip(tables.images["image_id"], tables.images["file_name"], strict=True))
    qrels = tables.qrels.assign(file=tables.qrels["image_id"].astype(str).map(file_of))
    assert not tables.queries.duplicated(["language", "style", "text"]).any()
    by_query = dict(iter(qrels.groupby("query_id", observed=True)))
    for query in tables.queries.itertuples():
        right, may_be_wrong = judge_by_oracle(query, photos, answers)
        rows = by_query[query.query_id]
        found = {name: grade for name, grade in zip(rows["file"], rows["relevance"], strict=True) if grade > 0}
        assert found == right, query.text
        wrong = set(rows.loc[rows["relevance"] == 0, "file"])
        assert wrong <= may_be_wrong, (query.text, wrong - may_be_wrong)
        assert len(wrong) == min(len(may_be_wrong), 100), query.text
    return tables.queries


def build_album(folder: Path, photos: list[DrawnPhoto], monkeypatch: pytest.MonkeyPatch, *keys: str) -> str:
    monkeypatch.chdir(folder)
    write_album(photos, folder / "photos")
    printed = invoke("init", "album", "--images", "photos", "--language", "en", catch=False).output
    words = [word for key in ("render.size=32", *keys) for word in ("--set", key)]
    assert invoke("build", "precision", "album.yaml", *words, catch=False).exit_code == 0
    return printed


@pytest.mark.thorough
def test_an_album_becomes_queries_whose_every_judgment_the_oracle_shares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    photos = draw_album(60)
    printed = build_album(tmp_path, photos, monkeypatch)
    named = sum(bool(one.people | one.listed) for one in photos)
    assert f"of 60 photos {named} name people (5)" in printed
    queries = check_set(tmp_path, photos)
    assert {kind for kinds in queries["fact_kinds"] for kind in kinds} >= {
        "person",
        "place",
        "date",
        "keyword",
        "event",
    }
    texts = set(queries["text"])
    assert "Gracie" in texts and any(text.startswith("only ") for text in texts), texts
    assert any(" without " in text for text in texts) and any(" and " in text for text in texts)
    assert set(queries["source"]) == {"file", "both"}


@pytest.mark.thorough
def test_600_photos_become_300_questions_of_six_kinds_within_five_minutes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    photos, start = draw_album(600, 5), time.monotonic()
    build_album(tmp_path, photos, monkeypatch)
    queries = check_set(tmp_path, photos)
    kinds = {kind for kinds in queries["fact_kinds"] for kind in kinds} | set(queries["family"].dropna())
    assert len(queries) >= 300 and len(kinds) >= 6, kinds
    assert time.monotonic() - start < 300


@pytest.mark.thorough
def test_a_search_that_reads_metadata_and_one_that_sees_pixels_have_different_profiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    photos = draw_album(200, 9)
    build_album(tmp_path, photos, monkeypatch)
    queries = read_set(tmp_path / "datasets/photos/v1").tables.queries
    files = {
        one.name: {
            *(one.taken_at.strftime("%-d %B %Y").split() if one.taken_at else ()),
            *(f"{one.city} {' '.join(PLACES[one.city][:2])}".split() if one.city else ()),
        }
        for one in photos
    }
    pixels = {one.name: {word for name in one.people | one.keywords for word in name.split()} for one in photos}
    profiles = {}
    for system, words in (("metadata", files), ("pixels", pixels)):
        run = {
            text: sorted(words, key=lambda name: (-len(words[name] & set(text.replace(",", "").split())), name))[:50]
            for text in queries["text"]
        }
        (tmp_path / f"{system}.json").write_text(json.dumps(run))
        typed = ["evaluate", "photos", "--run", f"{system}.json", "--ids", "file_name", "--no-page", "--json"]
        (result,) = json.loads(invoke(*typed, "--metrics", "ndcg@10", catch=False).stdout)["results"]
        profiles[system] = {(row["slice"], row["value"]): row["mean"] for row in result["slices"]}
    for kind in ("date", "place"):
        assert profiles["metadata"]["fact_kinds", kind] > profiles["pixels"]["fact_kinds", kind] + 0.1
    assert profiles["pixels"]["fact_kinds", "keyword"] > profiles["metadata"]["fact_kinds", "keyword"] + 0.1
    assert profiles["metadata"]["source", "file"] > profiles["pixels"]["source", "file"] + 0.1
