"""The first stages of a generated set by the command line, with a stand-in for the chat model on loopback."""

import json
from pathlib import Path

import pytest

from querytruth.cli.self_instruct_commands import collect
from querytruth.errors import UserError
from tests.cli.conftest import Run
from tests.flows.image_web import LIMITS, FakeImageWeb, allow_loopback, collect_with_decisions
from tests.flows.stub_generator import StubGenerator
from tests.loopback import CannedResponse, Loopback, ReceivedRequest, loopback
from tests.worlds import chat_reply


def said(asked: ReceivedRequest) -> CannedResponse:
    return chat_reply(StubGenerator().reply(str(asked.json["messages"][0]["content"])))


@pytest.mark.slow
def test_topics_then_a_person_then_objects(run: Run, tmp_path: Path) -> None:
    with loopback(said) as server:
        (tmp_path / "g.yaml").write_text(
            "name: tiny\nkind: generated\n"
            f"topics: {{model: openai_compatible, options: {{base_url: {server.url}, name: stub}}, rounds: 6}}\n"
            "objects: {embedder: char_ngrams, rounds: 3}\n"
        )
        assert "run querytruth topics g.yaml" in run.error("objects", "g.yaml")
        assert run.json("topics", "g.yaml", "--plan")["model_calls"] == 6
        assert not server.asked and not (tmp_path / "datasets" / "tiny" / "generated").exists(), "a plan writes nothing"
        shown = run("topics", "g.yaml")[0].replace("\n", " ")
        assert "6 model calls; stopped: 1 round limit" in shown
        assert "awaiting review: datasets/tiny/review/topics.csv, then: querytruth objects g.yaml" in shown
        assert "or on a page: querytruth review datasets/tiny/review/topics.csv" in shown
        table = tmp_path / "datasets" / "tiny" / "review" / "topics.csv"
        assert b"# querytruth export" in table.read_bytes().splitlines()[0]
        planned = run("topics", "g.yaml", "--plan")[0]
        assert "6 questions about topics are already answered; at most 0 model calls" in planned
        at_most = run.json("objects", "g.yaml", "--plan")["model_calls"]
        told = run.json("objects", "g.yaml")
        assert 0 < told["model_calls"] <= at_most
        assert told["model_calls"] > 0 and told["then"] == "querytruth collect g.yaml" and told["rows"]["accepted"] > 20
        elsewhere = run("topics", "g.yaml", "--out", "my sets")[0].replace("\n", " ")
        assert (tmp_path / "my sets/tiny/review/topics.csv").is_file(), elsewhere
        assert "then: querytruth objects g.yaml --out 'my sets'" in elsewhere, "the next command finds the table"
        then = run.json("objects", "g.yaml", "--out", "my sets")["then"]
        assert then == "querytruth collect g.yaml --out 'my sets'"
        calls = len(server.asked)
        again = run.json("objects", "g.yaml", "--offline")
        assert (again["model_calls"], again["rows"]) == (0, told["rows"]) and len(server.asked) == calls


@pytest.mark.thorough
def test_the_starter_is_a_definition_and_faults_are_one_line(run: Run, tmp_path: Path) -> None:
    assert "Next: querytruth topics generated.yaml" in run("init", "generated")[0]
    unknown = run.error("topics", "generated.yaml", "--set", "objects.barrren=3")
    assert "key 'objects.barrren' is unknown" in unknown and "'barren'" in unknown
    both = ("--set", "topics.prompt=en/topics", "--set", "objects.prompt=zh/objects")
    mixed = run.error("topics", "generated.yaml", *both)
    assert "must be in the same language" in mixed


KINDS = ["", "gone", "silent", "", "", ""]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """What no option does: the commands reach this machine."""
    allow_loopback(monkeypatch)


def write(folder: Path, server: Loopback) -> None:
    collect = {"options": {"endpoint": f"{server.url}/acjson"}, "first": 6, "keep": 3, "limits": LIMITS}
    (folder / "g.yaml").write_text(json.dumps({"name": "web", "kind": "generated", "collect": collect}))


@pytest.mark.slow
@pytest.mark.usefixtures("here")
def test_collect_then_build_then_prove_it_without_the_web(run: Run, tmp_path: Path) -> None:
    collect_with_decisions(tmp_path / "datasets", "web", 3)
    with loopback(FakeImageWeb(KINDS)) as server:
        write(tmp_path, server)
        plan = run.json("build", "generated", "g.yaml", "--plan")
        assert (plan["queries"], plan["searches"], len(server.asked)) == (3, 3, 0)
        shown, progress = run("collect", "g.yaml")
        said = " ".join(shown.split())
        assert "3 queries keep 9 images; licences: not stated 9" in said
        assert "no image: 3 not found, 3 timeout" in said
        assert "then: querytruth build generated g.yaml" in said
        assert "images from 1 host," in progress and "/s)" in progress
        asked = len(server.asked)
        collected = run.json("collect", "g.yaml", "--offline")
        assert collected["fetched"] == 0 and collected["figures"]["pictures"] == 9
        built = run.json("build", "generated", "g.yaml")
        assert built["published"] and built["counts"]["judgments"] == 9
        assert len(server.asked) == asked
    again = run("build", "generated", "g.yaml", "--offline")[0]
    assert "unchanged: nothing published" in " ".join(again.split())
    assert "3 queries keep 9 images" in " ".join(again.split())
    proof = run("rebuild", "web", "--check")[0]
    assert "the rebuild has the same content digest" in " ".join(proof.split())
    _, told = run("show", "web", "--page", "web.html")
    assert "page written" in told and (tmp_path / "web.html").read_text().count("<script") == 1, "the page's own"


@pytest.mark.thorough
def test_no_definition_and_no_option_leads_to_this_machine(run: Run, tmp_path: Path) -> None:
    collect_with_decisions(tmp_path / "datasets", "web", 2)
    with loopback(FakeImageWeb(KINDS)) as server:
        write(tmp_path, server)
        printed = "".join(run("collect", "g.yaml"))
        assert "address not public" in " ".join(printed.split())
        assert not server.asked and not server.connections
        unknown = run.error("collect", "g.yaml", "--set", "collect.networks_for_tests=[127.0.0.0/8]")
        assert "key 'collect.networks_for_tests' is unknown" in unknown
    assert "is not a known option of" in run.error("collect", "g.yaml", "--networks-for-tests", "x", code=2)


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
def test_before_people_have_chosen_it_says_what_to_run(run: Run, tmp_path: Path) -> None:
    (tmp_path / "g.yaml").write_text("name: web\nkind: generated\n")
    for words in (("collect", "g.yaml"), ("build", "generated", "g.yaml")):
        error = run.error(*words)
        assert "does not exist yet" in error and "run querytruth" in error and error.count("error ") == 1
