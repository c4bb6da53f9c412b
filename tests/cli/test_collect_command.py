"""The last stage of a generated set by the command line, with an image search on loopback."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from querytruth.cli.self_instruct_commands import collect
from querytruth.errors import UserError
from tests.flows.image_web import LIMITS, FakeImageWeb, collect_with_decisions
from tests.loopback import Loopback, loopback

KINDS = ["", "gone", "silent", "", "", ""]
_THROUGH = (  # what no option does: the commands reach this machine
    "import pytest; from tests.flows.image_web import allow_loopback; "
    "allow_loopback(pytest.MonkeyPatch()); from querytruth.cli.app import main; main()"
)


def run(folder: Path, *words: str, code: int = 0, through: bool = True) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, *(["-c", _THROUGH] if through else ["-m", "querytruth"]), *words]
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


def told(folder: Path, *words: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(run(folder, *words, "--json").stdout)
    return answer


def write(folder: Path, server: Loopback) -> None:
    collect = {"options": {"endpoint": f"{server.url}/acjson"}, "first": 6, "keep": 3, "limits": LIMITS}
    (folder / "g.yaml").write_text(json.dumps({"name": "web", "kind": "generated", "collect": collect}))


@pytest.mark.slow
def test_collect_then_build_then_prove_it_without_the_web(tmp_path: Path) -> None:
    collect_with_decisions(tmp_path / "datasets", "web", 3)
    with loopback(FakeImageWeb(KINDS)) as server:
        write(tmp_path, server)
        plan = told(tmp_path, "build", "generated", "g.yaml", "--plan")
        assert (plan["queries"], plan["searches"], len(server.asked)) == (3, 3, 0)
        shown = run(tmp_path, "collect", "g.yaml")
        said = " ".join(shown.stdout.split())
        assert "3 queries keep 9 images; licences: not stated 9" in said
        assert "no image: 3 not found, 3 timeout" in said
        assert "then: querytruth build generated g.yaml" in said
        assert "images from 1 host," in shown.stderr and "/s)" in shown.stderr
        asked = len(server.asked)
        collected = told(tmp_path, "collect", "g.yaml", "--offline")
        assert collected["fetched"] == 0 and collected["figures"]["pictures"] == 9
        built = told(tmp_path, "build", "generated", "g.yaml")
        assert built["published"] and built["counts"]["judgments"] == 9
        assert len(server.asked) == asked
    again = run(tmp_path, "build", "generated", "g.yaml", "--offline").stdout
    assert "unchanged: nothing published" in " ".join(again.split())
    assert "3 queries keep 9 images" in " ".join(again.split())
    proof = run(tmp_path, "rebuild", "web", "--check", through=False).stdout
    assert "the rebuild has the same content digest" in " ".join(proof.split())
    page = run(tmp_path, "show", "web", "--page", "web.html", through=False)
    assert "page written" in page.stderr and "<script" not in (tmp_path / "web.html").read_text()


@pytest.mark.slow
def test_what_collect_was_allowed_holds_for_the_build_and_its_proof(tmp_path: Path) -> None:
    collect_with_decisions(tmp_path / "datasets", "web", 2)
    table = tmp_path / "datasets" / "web" / "review" / "objects.csv"
    table.write_bytes(b"\r\n".join([*table.read_bytes().split(b"\r\n")[:-2], b""]))  # the last row is gone
    with loopback(FakeImageWeb(KINDS)) as server:
        write(tmp_path, server)
        refused = run(tmp_path, "collect", "g.yaml", code=1).stderr
        assert "or accept them with --allow-missing" in " ".join(refused.split())
        run(tmp_path, "collect", "g.yaml", "--allow-missing")
        built = run(tmp_path, "build", "generated", "g.yaml")
    assert "objects.csv is read with the same options as before: --allow-missing" in " ".join(built.stderr.split())
    assert "web/v1 published" in " ".join(built.stdout.split())
    proof = run(tmp_path, "rebuild", "web", "--check", through=False).stdout
    assert "the rebuild has the same content digest" in " ".join(proof.split())


@pytest.mark.thorough
def test_no_definition_and_no_option_leads_to_this_machine(tmp_path: Path) -> None:
    collect_with_decisions(tmp_path / "datasets", "web", 2)
    with loopback(FakeImageWeb(KINDS)) as server:
        write(tmp_path, server)
        error = run(tmp_path, "collect", "g.yaml", through=False)
        assert "address not public" in " ".join((error.stdout + error.stderr).split())
        assert not server.asked and not server.connections
        unknown = run(tmp_path, "collect", "g.yaml", "--set", "collect.networks_for_tests=[127.0.0.0/8]", code=1)
        assert "key 'collect.networks_for_tests' is unknown" in unknown.stderr
    assert "is not a known option of" in run(tmp_path, "collect", "g.yaml", "--networks-for-tests", "x", code=2).stderr


@pytest.mark.parametrize(
    ("override", "fault"),
    [
        ("collect.search=gogle", "gogle (load image search): unknown image search"),
        ("collect.options.enpoint=x", "unknown option. Next: did you mean 'endpoint'?"),
        ("collect.keep=30", "keep (30) must not exceed first (6)"),
        ("collect.same_url=keep", "key 'collect.same_url': Input should be 'drop' or 'merge'"),
        ("collect.licences=[cc-by-4.0]", "family 'cc-by-4.0': write 'cc-by'"),
        ("collect.contact=名字", "key 'collect.contact'"),
        ("collect.limits.seconds=0", "key 'collect.limits.seconds'"),
        ("collect.minresults=3", "key 'collect.minresults' is unknown. Next: did you mean 'min_results'?"),
    ],
)
def test_a_fault_in_the_definition_is_told(chosen: Path, override: str, fault: str) -> None:
    with pytest.raises(UserError) as error:
        collect(chosen / "g.yaml", overrides=[f"out={chosen / 'datasets'}", override])
    assert fault in str(error.value)


@pytest.fixture(scope="module")
def chosen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set of which people have chosen a query, and nobody to ask."""
    folder = tmp_path_factory.mktemp("chosen")
    collect_with_decisions(folder / "datasets", "web", 1)
    with loopback(FakeImageWeb(KINDS)) as server:
        write(folder, server)
    return folder


@pytest.mark.thorough
def test_before_people_have_chosen_it_says_what_to_run(tmp_path: Path) -> None:
    (tmp_path / "g.yaml").write_text("name: web\nkind: generated\n")
    for words in (("collect", "g.yaml"), ("build", "generated", "g.yaml")):
        error = run(tmp_path, *words, code=1).stderr
        assert "does not exist yet" in error and "run querytruth" in error and error.count("\n") == 2
