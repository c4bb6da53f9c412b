"""A model that changed behind its name is asked again, and older versions stay what they were."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.rebuild import rebuild_tables, refresh_replies
from flows.set_kinds import build_set
from querytruth.backends.models.cached_replies import answer_requests
from querytruth.backends.models.reply_store import open_reply_store
from querytruth.backends.models.stored_answers import replies_as_of
from querytruth.backends.steps import BuildRun, active_run
from querytruth.errors import UserError
from tests.flows.test_call_forecasts import answer, definition, draw, load, questions
from tests.loopback import Loopback, loopback
from tests.object_service import SECRET_KEY, ObjectService


@pytest.fixture
def server() -> Iterator[Loopback]:
    with loopback(answer) as running:
        yield running


def test_a_refreshed_reply_is_asked_for_again_and_found_as_of_its_time(server: Loopback, reply_location: str) -> None:
    model = load(server)
    with open_reply_store(reply_location) as store:
        first = answer_requests(store, model, questions(range(3)))
        assert store.refresh([model.identity]) == 3
        assert answer_requests(store, model, questions(range(3)), offline=True).missing == 3
        second = answer_requests(store, model, questions(range(3)))
        assert store.refresh([model.identity]) == 3, "twice in a second"
        second = answer_requests(store, model, questions(range(3)))
        assert second.calls == 3 and second.digest != first.digest
        with replies_as_of("2999-01-01T00:00:00+00:00"):
            assert answer_requests(store, model, questions(range(3)), offline=True).digest == second.digest


@pytest.mark.thorough
def test_the_next_build_asks_again_and_the_version_before_is_rebuilt(
    server: Loopback, tmp_path: Path, reply_location: str
) -> None:
    draw(tmp_path / "album", ["a", "b"])
    wanted = definition(tmp_path, server, f"replies={reply_location}")
    with active_run(BuildRun()):
        old = build_set(wanted)
        time.sleep(1.1)  # versions carry whole seconds
        assert refresh_replies(wanted, "m") == 2
        new = build_set(wanted)
    assert len(server.asked) == 4 and new.is_new
    with active_run(BuildRun(offline="://" not in reply_location)):
        for version in (old, new):
            assert rebuild_tables(version.path).digest == version.manifest["content_digest"]
    assert len(server.asked) == 4


@pytest.mark.thorough
def test_folders_that_share_only_a_bucket_share_what_was_paid_for(
    server: Loopback, tmp_path: Path, object_service: ObjectService, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests = []
    for name in ("one", "other"):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name / "cache"))
        (tmp_path / name).mkdir()
        draw(tmp_path / name / "album", ["a", "b"])
        wanted = definition(tmp_path / name, server, f"replies={object_service.url}/replies")
        with active_run(BuildRun()):
            built = build_set(wanted)
        digests.append(built.manifest["content_digest"])
        assert not list((tmp_path / name / "sets").rglob("replies.sqlite"))
        assert SECRET_KEY not in (built.path / "manifest.json").read_text("utf-8")
    assert len(server.asked) == 2 and digests[0] == digests[1]
    with active_run(BuildRun(offline=True)), pytest.raises(UserError, match=r"--offline.*reply store on disk"):
        build_set(wanted)


def test_a_model_without_replies_is_one_line(server: Loopback, tmp_path: Path) -> None:
    draw(tmp_path / "album", ["a"])
    wanted = definition(tmp_path, server)
    with open_reply_store(wanted.out / wanted.name / "replies.sqlite") as store:
        answer_requests(store, load(server), questions(range(1)))
    with pytest.raises(UserError, match=r"did you mean 'm'|choose from m"):
        refresh_replies(wanted, "mm")
