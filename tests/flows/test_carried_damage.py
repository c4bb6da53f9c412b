"""Seeded damage to stored data: each command carries on what is intact, or stops and names the file."""

import hashlib
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builders.gallery.render_steps import load_shown_images
from builders.publication import publish_built, publish_decisions
from builders.recall.definition import RecallDefinition
from builders.recall.steps import load_published_gallery
from flows.review_site import open_review_site
from querytruth.backends.images.rendering import PixelsJob, run_pixels_job
from querytruth.definitions import SetDefinition
from querytruth.errors import UserError
from querytruth.evaluation.judged_sets import load_judged_set
from querytruth.formats import exporters
from querytruth.sets import set_files
from querytruth.sets.benchmark_set import content_digest
from querytruth.sets.decision_log import append_decisions, verify_decision_logs
from querytruth.sets.decision_records import QueryDecision
from querytruth.sets.set_files import locate_images, read_set
from querytruth.sets.version_difference import compare_versions
from tests.small_sets import publish_small_set, small_tables

LOG = "decisions.jsonl"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set of two versions with three decisions in effect, and one that waits for the next version."""
    stored = publish_small_set(tmp_path_factory.mktemp("template"), small_tables())
    rows = list(small_tables().queries.itertuples())
    decisions = [QueryDecision(row.query_id, row.text, "keep", at="2026-01-01") for row in rows[:2]]
    decisions.append(QueryDecision(rows[2].query_id, rows[2].text, "edit", new_text="a cat", at="2026-01-01"))
    for one in decisions:
        append_decisions(stored.path.parent, [one])
    assert publish_decisions(stored.path).version == 2
    append_decisions(stored.path.parent, [QueryDecision(rows[3].query_id, rows[3].text, "drop", at="2026-01-02")])
    return stored.path.parent


def digest_of_tree(folder: Path) -> str:
    """Of names and bytes, without what differs from run to run."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "manifest.json"):
        digest.update(f"{path.relative_to(folder)}\n".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def apply(folder: Path, work: Path) -> str:
    return digest_of_tree(publish_decisions(folder / "v2").path)


def export(folder: Path, work: Path) -> str:
    for name in ("csv", "trec"):
        exporters.export_set(name, set_files.read_set(folder / "v2"), work / name, allow_loss=True)
    return digest_of_tree(work)


def build(folder: Path, work: Path) -> str:
    """A set upon the published one, as `gallery: small/v2` makes it: what a model is asked about, and the images."""
    gallery = load_published_gallery(RecallDefinition(name="upon", gallery=str(folder / "v2")))
    asked = [image.sha256 for image in load_shown_images(gallery.tables.images, gallery.rendered_folder)]
    definition = SetDefinition(kind="gallery", name="upon", out=work)
    return f"{asked} {digest_of_tree(publish_built(definition, gallery).path)}"


def evaluate(folder: Path, work: Path) -> list[Any]:
    judged = load_judged_set(folder / "v2")
    assert judged.stored is not None
    pixels = []
    for place in locate_images(judged.stored):
        decoded = run_pixels_job(PixelsJob(str(place.location), 64, place.sha256))
        if isinstance(decoded, tuple):  # as in the ledger of a result
            raise UserError("encode", place.location, *decoded)
        pixels.append(decoded.tobytes())
    return [content_digest(judged.stored.tables.to_arrow_tables()), pixels]


def review(folder: Path, work: Path) -> list[Any]:
    site = open_review_site(read_set(folder / "v2"), "lin")
    if site.notes:
        raise UserError("review", folder / LOG, "; ".join(site.notes), "")
    return site.about["views"]


def diff(folder: Path, work: Path) -> str:
    before, after = (set_files.read_set(folder / version).tables for version in ("v1", "v2"))
    return str(compare_versions(before, after))


COMMANDS: list[Callable[[Path, Path], Any]] = [apply, export, build, evaluate, review, diff]


def outcomes(folder: Path, work: Path) -> dict[str, Any]:
    """What each command made of the set; of an error its text. Each gets a copy of its own."""
    made: dict[str, Any] = {}
    for command in COMMANDS:
        own = work / command.__name__
        shutil.copytree(folder, own / "sets" / folder.name)
        (own / "work").mkdir()
        try:
            made[command.__name__] = command(own / "sets" / folder.name, own / "work")
        except UserError as error:
            made[command.__name__] = error
    return made


@pytest.fixture(scope="module")
def clean(template: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    made = outcomes(template, tmp_path_factory.mktemp("clean"))
    assert not [error for error in made.values() if isinstance(error, UserError)]
    return made


def flip_a_bit(folder: Path, dice: random.Random) -> Path:
    """The file in which a bit was flipped. The line end of the last decision stays: without it the line counts as an
    unfinished write, which is dropped, and no version holds that decision yet."""
    files = sorted(path for path in folder.glob("v2/**/*") if path.is_file()) + [folder / LOG] * 2
    file = dice.choice([*files, folder / "v1" / "qrels.parquet"])
    data = bytearray(file.read_bytes())
    data[dice.randrange(len(data) - (file.name == LOG))] ^= 1 << dice.randrange(8)
    file.write_bytes(data)
    return file


def check_flipped_bit(seed: int, template: Path, clean: dict[str, Any], folder: Path) -> int:
    """How many commands named the flipped bit of this seed; none of them may have carried it on."""
    damaged = folder / "small"
    shutil.copytree(template, damaged)
    file = flip_a_bit(damaged, random.Random(seed))
    named = 0
    for command, made in outcomes(damaged, folder / "work").items():
        if isinstance(made, UserError):
            named += 1
            assert file.name in str(made), (seed, command, str(made))
        else:
            assert made == clean[command], (seed, command, file)
    problems = list(set_files.verify_set(damaged / "v2")) + list(verify_decision_logs(damaged / "v2"))
    assert file.parent.name == "v1" or any(file.name in problem for problem in problems), (seed, file)
    assert named or file.name == "README.md", (seed, file)
    shutil.rmtree(folder)
    return named


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "seeds", [pytest.param(8, marks=pytest.mark.thorough, id="a few"), pytest.param(40, marks=pytest.mark.slow)]
)
def test_a_flipped_bit_is_named_or_carried_on_by_nobody(
    seeds: int, template: Path, clean: dict[str, Any], tmp_path: Path
) -> None:
    named = sum(check_flipped_bit(seed, template, clean, tmp_path / str(seed)) for seed in range(seeds))
    print(f"{named} commands named a flipped bit")
