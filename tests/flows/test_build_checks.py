"""What a build checks before it reads an image or pays for an answer."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from flows.set_kinds import build_set
from querytruth.backends.steps import BuildRun, SilentReporter, active_run
from querytruth.errors import UserError
from tests.flows.test_call_forecasts import answer, definition, draw
from tests.loopback import loopback


@dataclass
class Lines(SilentReporter):
    """Keeps the lines of a build."""

    lines: list[str] = field(default_factory=list)

    def log(self, text: str) -> None:
        self.lines.append(text)


def test_a_build_whose_endpoint_nobody_runs_reads_no_image(tmp_path: Path) -> None:
    draw(tmp_path / "album", ["a"])
    with loopback(answer) as server:
        wanted = definition(tmp_path, server)
    with active_run(BuildRun()), pytest.raises(UserError, match="no server seems to listen there") as refused:
        build_set(wanted)
    assert refused.value.stage == "check endpoint"
    assert not (tmp_path / "sets").exists(), "nothing was scanned"


@pytest.mark.thorough
def test_an_endpoint_that_has_answered_may_be_gone_where_replies_suffice(tmp_path: Path) -> None:
    draw(tmp_path / "album", ["a"])
    with loopback(answer) as server, active_run(BuildRun()):
        wanted = definition(tmp_path, server)
        assert build_set(wanted).is_new and len(server.asked) == 1, "the check asks nothing"
    reporter = Lines()
    with active_run(BuildRun(reporter)):
        assert not build_set(wanted).is_new
    told = [line for line in reporter.lines if line.startswith("endpoint of captions")]
    assert len(told) == 1 and "no server seems to listen there" in told[0], reporter.lines
