"""The life of a set, drawn by chance: people decide, undo, fill in tables, apply and build, two at once; files are
damaged, processes killed, versions sent away and fetched. After each step the set says what plain dicts say.

Whoever wants to trust the rest reads this file and `plain_truth.py`.
"""

import csv
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

import querytruth as qt
from flows.rebuild import rebuild_tables
from querytruth.api.loaded_set import LoadedSet
from querytruth.errors import UserError
from querytruth.sets.decision_log import append_decisions, read_decisions
from querytruth.sets.decision_records import QueryDecision
from tests.command_runner import invoke
from tests.plain_truth import PlainTruth
from tests.worlds import build_of, draw_labelled_images

PEOPLE = st.sampled_from(["", "ada", "lin"])
PLACES = st.integers(0, 10**6)  # which query, image, version or file is meant, modulo how many there are
JUDGED = 2  # images that people judge: few, so that decisions meet
NEW_TEXTS = st.sampled_from(["Cat", "a small cat", "A SMALL CAT", "dog!", "人"])


class LifeOfASet(RuleBasedStateMachine):
    """One set in one folder of sets, its copy in object storage, and the tables that people hold."""

    def __init__(self) -> None:
        super().__init__()
        self.home = Path(tempfile.mkdtemp(prefix="life-"))
        self.words = ["name=life", *draw_labelled_images(self.home)]
        first = qt.load(build_of("precision", self.words).path)
        self.folder = first.path.parent
        self.base = PlainTruth.of_tables(first.queries, first.qrels, first.images["image_id"])
        self.versions = [self.base]
        self.log: list[QueryDecision] = []
        self.tables: list[tuple[int, Path]] = []  # the version that each was exported of
        self.stored: dict[int, str] = {}  # the digest of each version in object storage
        self.clock, self.touched = 0, 0
        self.looked_at: object = None

    def teardown(self) -> None:
        shutil.rmtree(self.home)

    @property
    def newest(self) -> LoadedSet:
        return qt.load(self.folder / f"v{len(self.versions)}")

    # What people do

    def decide(self, person: str, query: int, **decision: object) -> None:
        """A decision as the review page takes it: on the text that the newest version shows."""
        self.clock += 1
        texts = sorted(self.versions[-1].texts.items())
        query_id, text = texts[query % len(texts)]
        at = f"2026-01-01T{self.clock // 3600:02}:{self.clock // 60 % 60:02}:{self.clock % 60:02}+00:00"
        line = QueryDecision(query_id, text, reviewer=person, at=at, **decision)  # type: ignore[arg-type]
        append_decisions(self.folder, [line])
        self.log.append(line)

    @rule(person=PEOPLE, query=PLACES, decision=st.sampled_from(["keep", "keep", "drop"]))
    def judge_a_query(self, person: str, query: int, decision: str) -> None:
        self.decide(person, query, decision=decision)

    @rule(person=PEOPLE, query=PLACES, new_text=NEW_TEXTS, keeps_truth=st.booleans())
    def edit_a_query(self, person: str, query: int, new_text: str, keeps_truth: bool) -> None:
        self.decide(person, query, decision="edit", new_text=new_text, keeps_truth=keeps_truth)

    @rule(person=PEOPLE, query=PLACES, image=PLACES, grade=st.integers(0, 2))
    def grade_an_image(self, person: str, query: int, image: int, grade: int) -> None:
        image_id = sorted(self.base.images)[image % JUDGED]
        self.decide(person, query, decision="grade", image_id=image_id, relevance=grade)

    @rule(person=PEOPLE, query=PLACES, image=PLACES, decision=st.sampled_from(["keep", "drop"]))
    def confirm_or_refuse_an_image(self, person: str, query: int, image: int, decision: str) -> None:
        image_id = sorted(self.base.images)[image % JUDGED]
        self.decide(person, query, decision=decision, image_id=image_id)

    @precondition(lambda self: self.log)
    @rule(which=PLACES)
    def undo(self, which: int) -> None:
        """Any line, also one that is undone or published already."""
        done = self.log[which % len(self.log)]
        self.clock += 1
        line = QueryDecision(
            done.query_id, done.text, "undo", done.image_id, at=str(self.clock), undoes=done.decision_id
        )
        append_decisions(self.folder, [line])
        self.log.append(line)

    @rule(query=PLACES, other=PLACES, grade=st.integers(0, 2))
    def decide_two_at_once(self, query: int, other: int, grade: int) -> None:
        """Neither loses a line; who was first is what the log says."""
        image_id = sorted(self.base.images)[0]
        texts = sorted(self.versions[-1].texts.items())
        lines = [
            QueryDecision(*texts[place % len(texts)], "grade", image_id, relevance=grade, reviewer=person, at=f"{at}")
            for place, person, at in ((query, "ada", self.clock + 1), (other, "lin", self.clock + 2))
        ]
        self.clock += 2
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda line: append_decisions(self.folder, [line]), lines))
        now = read_decisions(self.folder, QueryDecision)
        assert now in (self.log + lines, self.log + lines[::-1])
        self.log = now

    @rule(view=st.sampled_from(["queries", "judgments"]))
    def export_a_table(self, view: str) -> None:
        folder = self.home / f"export-{len(self.tables)}"
        assert invoke("review", "export-csv", self.newest.path, "--to", folder).exit_code == 0
        self.tables.append((len(self.versions), folder / f"{view}.csv"))

    @precondition(lambda self: self.tables)
    @rule(which=PLACES, row=PLACES, answer=st.sampled_from(["drop", "keep", "2", "0", "maybe"]), older=st.booleans())
    def import_a_filled_in_table(self, which: int, row: int, answer: str, older: bool) -> None:
        """A table of another version is refused unless people say so; a wrong cell refuses the whole table."""
        version, path = self.tables[which % len(self.tables)]
        rows = list(csv.reader(path.read_text("utf-8-sig").splitlines(keepends=True)))
        head = next(number for number, cells in enumerate(rows) if "decision" in cells)
        rows[head + 1 + row % (len(rows) - head - 1)][rows[head].index("decision")] = answer
        filled = self.home / "filled.csv"
        with filled.open("w", encoding="utf-8-sig", newline="") as file:
            csv.writer(file).writerows(rows)
        words = ["--allow-other-export"] if older else []
        ended = invoke("review", "import-csv", self.newest.path, filled, "--reviewer", "lin", *words)
        allowed = ["keep", "drop"] + (["0", "2"] if path.stem == "judgments" else [])
        is_accepted = answer in allowed and (older or version == len(self.versions))
        assert (ended.exit_code == 0) == is_accepted, ended.output
        now = read_decisions(self.folder, QueryDecision)
        assert now[: len(self.log)] == self.log
        assert len(now) - len(self.log) <= is_accepted, "one row was filled in; imported twice, it is one decision"
        self.log = now

    # What makes versions

    def expect(self, truth: PlainTruth, is_new: bool, version: int) -> None:
        last = self.versions[-1]
        same = (last.texts, last.grades) == (truth.texts, truth.grades)
        assert is_new or same, "what changed is published"
        if is_new:
            self.versions.append(truth)
        assert version == len(self.versions)

    @rule()
    def apply(self) -> None:
        expected = self.versions[-1].after(self.log)
        if not expected.texts:
            with pytest.raises(UserError, match="nothing was published"):
                self.newest.apply()
            return
        built = self.newest.apply()
        self.expect(expected, built.is_new, int(built.path.name[1:]))

    @rule()
    def build_again(self) -> None:
        expected = self.base.after(self.log)
        if not expected.texts:
            with pytest.raises(UserError, match="nothing was published"):
                build_of("precision", self.words)
            return
        result = build_of("precision", self.words)
        self.expect(expected, result.is_new, result.version)

    @rule()
    def rebuild_the_newest(self) -> None:
        assert rebuild_tables(self.newest.path, lambda _lines: True).digest == self.newest.manifest["content_digest"]

    @precondition(lambda self: self.versions[-1].after(self.log).texts)
    @rule(people=st.integers(2, 3))
    def apply_by_several_at_once(self, people: int) -> None:
        """One of them publishes, or none where nothing changed; nobody is told of a fault but of an older version."""
        path, expected = self.newest.path, self.versions[-1].after(self.log)

        def work(_number: int) -> bool:
            try:
                return qt.load(path).apply().is_new
            except UserError as refused:
                assert "is not the newest version" in str(refused)
                return False

        with ThreadPoolExecutor(people) as pool:
            news = list(pool.map(work, range(people)))
        assert sum(news) <= 1
        self.expect(expected, any(news), len([one for one in self.folder.iterdir() if one.name[1:].isdigit()]))

    @precondition(lambda self: self.versions[-1].after(self.log).texts)
    @rule(query=PLACES, new_text=NEW_TEXTS)
    def decide_while_another_applies(self, query: int, new_text: str) -> None:
        """The decision is in the version or waits for the next one."""
        newest, without = self.newest, self.versions[-1].after(self.log)
        with ThreadPoolExecutor(1) as pool:
            applied = pool.submit(newest.apply)
            self.decide("ada", query, decision="edit", new_text=new_text)
        built = applied.result()
        taken = set(qt.load(built.path).manifest["decisions"]["in_effect"])
        with_it, last = self.versions[-1].after(self.log), self.versions[-1]
        came = (
            with_it.absorbed == taken if built.is_new else (with_it.texts, with_it.grades) == (last.texts, last.grades)
        )
        self.expect(with_it if came else without, built.is_new, int(built.path.name[1:]))

    @precondition(lambda self: self.versions[-1].after(self.log).texts and self.base.after(self.log).texts)
    @rule(after=st.integers(1, 60), builds=st.booleans())
    def apply_or_build_and_be_killed(self, after: int, builds: bool) -> None:
        """A child process ends without a word at its n-th opened, renamed or removed file: the set is as it was, or has
        the whole next version; what is left is removed."""
        expected = (self.base if builds else self.versions[-1]).after(self.log)
        newest = self.newest
        _do_and_die(lambda: build_of("precision", self.words) if builds else newest.apply(), after, self.folder)
        self.touched += 1
        names = {one.name for one in self.folder.iterdir()}
        if f"v{len(self.versions) + 1}" in names:
            self.versions.append(expected)
        for path in self.folder.rglob("*"):  # as if a day had passed
            os.utime(path, (time.time() - 10**6,) * 2, follow_symlinks=False)
        assert invoke("gc", self.folder).exit_code == 0
        assert not list(self.folder.glob(".publish/*"))

    # What happens to files

    @rule(version=PLACES, file=PLACES, byte=PLACES, cut=st.booleans())
    def damage_and_repair(self, version: int, file: int, byte: int, cut: bool) -> None:
        """One bit in any file of any version: `verify` names it, and nothing is built on it unseen."""
        path = self.folder / f"v{1 + version % len(self.versions)}"
        files = sorted(one for one in path.rglob("*") if one.is_file())
        target = files[file % len(files)]
        whole, mode = target.read_bytes(), target.stat().st_mode
        place = byte % len(whole)
        target.unlink()  # an image is a link to the one of the version before
        target.write_bytes(whole[:place] if cut else whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert any(target.name in problem for problem in qt.verify(path)), target
        target.write_bytes(whole)
        target.chmod(mode)
        assert qt.verify(path) == []

    @rule(file=st.sampled_from(["manifest.json", "queries.parquet", "qrels.parquet", "images.parquet"]), byte=PLACES)
    def damage_apply_and_repair(self, file: str, byte: int) -> None:
        """Nothing is built on what is damaged: the next version is asked for in vain until it is repaired."""
        target = self.newest.path / file
        whole, mode, newest = target.read_bytes(), target.stat().st_mode, self.newest
        place = byte % len(whole)
        target.unlink()
        target.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(UserError):
            qt.load(newest.path).apply()
        assert not (self.folder / f"v{len(self.versions) + 1}").exists()
        target.write_bytes(whole)
        target.chmod(mode)

    @rule()
    def send_away_and_fetch(self) -> None:
        """The copy elsewhere has the same digest and intact logs; a version that is there is not sent again."""
        newest = self.newest
        bucket, elsewhere = f"file://{self.home}/bucket", self.home / "elsewhere"
        sent = newest.publish(bucket)
        assert sent.is_new == (len(self.versions) not in self.stored)
        self.stored[len(self.versions)] = newest.manifest["content_digest"]
        fetched = qt.fetch(sent.url, elsewhere)
        assert qt.verify(fetched.path) == []
        assert qt.load(fetched.path).manifest["content_digest"] == newest.manifest["content_digest"]

    # What always holds

    @invariant()
    def the_log_holds_every_decision_in_its_order(self) -> None:
        assert read_decisions(self.folder, QueryDecision) == self.log

    @invariant()
    def the_newest_version_says_what_plain_dicts_say(self) -> None:
        """Looked at anew where a file of it, or which one is the newest, has changed."""
        version, truth = self.newest, self.versions[-1]
        manifest = version.path / "manifest.json"
        if self.looked_at == (looked_at := (manifest, manifest.stat().st_mtime_ns, self.touched)):
            return
        self.looked_at = looked_at
        assert dict(zip(version.queries["query_id"], version.queries["text"], strict=True)) == truth.texts
        rows = version.qrels[["query_id", "image_id", "relevance", "judged_by"]].itertuples(index=False)
        assert {(query, image): (grade, judge) for query, image, grade, judge in rows} == truth.grades
        assert set(version.manifest["decisions"]["in_effect"]) == truth.absorbed
        assert qt.verify(version.path) == []


def _do_and_die(work: Callable[[], object], after: int, folder: Path) -> None:
    """A child process that ends at its n-th event in a folder, or when the work is done."""
    if child := os.fork():
        os.waitpid(child, 0)
        return
    _die_at_file_event(after, folder)
    try:
        work()
    finally:
        os._exit(0)


def _die_at_file_event(count: int, folder: Path) -> None:
    left = [count]

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        if event in ("open", "os.rename", "os.remove", "os.mkdir", "os.link", "os.rmdir"):
            left[0] -= str(folder) in str(arguments[0])
            if left[0] < 0:
                os._exit(9)

    sys.addaudithook(watch)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("examples", "steps"),
    [
        pytest.param(2, 25, id="fifty steps"),
        pytest.param(6, 50, id="three hundred steps", marks=pytest.mark.thorough),
        pytest.param(12, 81, id="a thousand steps", marks=pytest.mark.slow),
    ],
)
def test_a_life_of_so_many_steps(examples: int, steps: int) -> None:
    quiet = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    told = settings(derandomize=False, max_examples=examples, stateful_step_count=steps, suppress_health_check=quiet)
    run_state_machine_as_test(LifeOfASet, settings=told)  # type: ignore[no-untyped-call]
