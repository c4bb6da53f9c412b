"""Programs that store what must not be lost, and for each what holds of its files whenever the machine stops."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from querytruth.audit.audit_files import list_audits, read_audit, write_audit
from querytruth.backends.models.chat import ChatRequest, Message, Reply
from querytruth.backends.models.reply_store import open_reply_store
from querytruth.backends.models.stored_answers import reply_key
from querytruth.backends.plugins import ModelIdentity
from querytruth.backends.web.page_store import FetchToStore, PageStore
from querytruth.backends.web.web_records import FetchedResource, WebRequest
from querytruth.sets import set_files
from querytruth.sets.decision_log import append_decisions, read_decisions
from querytruth.sets.decision_records import QueryDecision
from tests.small_audits import MANIFEST, TABLES


class RecordedProgram(NamedTuple):
    """`source` is run in a process of its own, and `check` raises what is wrong in its folder after a crash, given the
    lines that it had printed. `hidden`: names that no reader opens. `states`: so many crashes are tried at least."""

    source: str
    check: Callable[[Path, list[str]], None]
    hidden: tuple[str, ...]
    states: int


PUBLISH_TWICE = """
from pathlib import Path
from querytruth.backends.files.durable_files import write_atomically
from querytruth.sets.ledger import Ledger
from flows.definition_loader import SetDefinition
from builders.publication import BuiltTables, publish_built
from tests.images import make_jpeg
from tests.small_sets import SMALL_SET_GRADES, small_tables
folder = Path(sys.argv[1])
for graded in (True, False):
    tables = small_tables(graded=graded)
    for path in tables.images["path"]:
        write_atomically(folder / "rendered" / path, make_jpeg((9, 9, 9), (8, 8)))
    definition = SetDefinition(kind="precision", name="small", out=folder / "sets")
    built = BuiltTables(tables, Ledger(), SMALL_SET_GRADES, rendered_folder=folder / "rendered")
    print(publish_built(definition, built).version, flush=True)
"""


def check_versions(folder: Path, printed: list[str]) -> None:
    """The old version or the new one, whole; never a third."""
    small = folder / "sets" / "small"
    versions = sorted(small.glob("v*"))
    assert [path.name for path in versions] == [f"v{n + 1}" for n in range(len(versions))]
    assert len(versions) >= len(printed), "a published version is gone"
    for path in versions:
        assert list(set_files.verify_set(path)) == []
    if printed or (small / "latest").exists():
        named = (small / "latest").read_text().strip()
        assert named in [path.name for path in versions[max(0, len(printed) - 1) :]]


INSTALL = """
from pathlib import Path
from querytruth.sets.set_publishing import install_version
from querytruth.sets.ledger import Ledger
from flows.definition_loader import SetDefinition
from builders.publication import BuiltTables, publish_built
from tests.small_sets import SMALL_SET_GRADES, small_tables
folder = Path(sys.argv[1])
definition = SetDefinition(kind="precision", name="small", out=folder / "elsewhere")
publish_built(definition, BuiltTables(small_tables(), Ledger(), SMALL_SET_GRADES))
for path in sorted((folder / "elsewhere" / "small" / "v1").rglob("*")):  # a download does not wait for the disk
    place = folder / "cache" / path.relative_to(folder / "elsewhere")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.mkdir() if path.is_dir() else place.write_bytes(path.read_bytes())
print(install_version(folder / "cache" / "small" / "v1", folder / "sets" / "small").version, flush=True)
"""


def check_fetched_version(folder: Path, printed: list[str]) -> None:
    """In place, whole, or not there."""
    small = folder / "sets" / "small"
    versions = [path.name for path in small.glob("v*")]
    assert versions in ([], ["v1"]) and len(versions) >= len(printed), "a fetched version is gone"
    for name in versions:
        assert list(set_files.verify_set(small / name)) == []


SAVE_THREE_TIMES = """
from pathlib import Path
from tests.crashes.recorded_programs import SAVES
from querytruth.sets.decision_log import append_decisions
for number, decisions in enumerate(SAVES):
    append_decisions(Path(sys.argv[1]) / "sets" / "pets", decisions)
    print(number, flush=True)
"""
SAVES = [  # of several blocks, so that some may arrive without the others
    [QueryDecision("q_1", "狗", "drop", note="模糊\n两行" * 400)],
    [QueryDecision(f"q_{n}", "猫", "edit", new_text="大猫" * 200) for n in range(3)],
    [QueryDecision("q_1", "狗", "grade", "img_1", relevance=1, note="清楚" * 800)],
]


def check_decisions(folder: Path, printed: list[str]) -> None:
    """The confirmed ones are there, each save whole or not at all."""
    pets = folder / "sets" / "pets"
    saved = [[decision for save in SAVES[:count] for decision in save] for count in range(len(SAVES) + 1)]
    found = read_decisions(pets, QueryDecision)
    assert found in saved[len(printed) :], f"{len(found)} decisions"
    append_decisions(pets, SAVES[2])
    assert read_decisions(pets, QueryDecision) == [*found, *SAVES[2]]


STORE_PAGES = """
from pathlib import Path
from tests.crashes.recorded_programs import store_pages
store_pages(Path(sys.argv[1]) / "pages")
"""
BODIES = [b"<html>one</html>", b"\xff\xd8" + bytes(5000), b"<html>three</html>"]


def page(number: int) -> tuple[WebRequest, FetchedResource, bytes]:
    body, url = BODIES[number], f"https://example.org/{number}"
    resource = FetchedResource(url, 200, {}, hashlib.sha256(body).hexdigest(), len(body))
    return WebRequest(url, "image"), resource, body


def store_pages(folder: Path) -> None:
    """The first and the last as bytes, the second as a file."""
    store = PageStore(folder)
    for number in range(len(BODIES)):
        request, resource, body = page(number)
        if number == 1:
            incoming = store.open_incoming_body()
            incoming.file.write(body)
            store.save_all([FetchToStore(request, resource, incoming)])
            incoming.close()
        else:
            store.save(request, resource, body)
        print(number, flush=True)
    store.close()


def check_pages(folder: Path, printed: list[str]) -> None:
    """Every page that was acknowledged is there, with its bytes."""
    store = PageStore(folder / "pages")
    try:
        found = store.find([page(number)[0] for number in range(len(BODIES))])
        for number, body in enumerate(BODIES):
            one = found.get(page(number)[0].key)
            assert one is not None or number >= len(printed), "an acknowledged page is gone"
            assert one is None or store.read_body(one.sha256) == body
        request, resource, body = page(0)
        store.save(request, resource, body)
        assert store.find([request])
    finally:
        store.close()


START_TWICE = """
from pathlib import Path
from tests.crashes.recorded_programs import start_audit
for name in ("first", "second"):
    start_audit(Path(sys.argv[1]), name)
    print(name, flush=True)
"""


def start_audit(folder: Path, name: str) -> Path:
    audit = folder / "pets" / "audits" / name
    write_audit(audit, {**MANIFEST, "name": name}, TABLES)
    return audit


def check_audits(folder: Path, printed: list[str]) -> None:
    """Each is there whole, or not at all."""
    found = list_audits(folder / "pets")
    assert set(printed) <= set(found), "an audit that was started is gone"
    for name in found:
        stored = read_audit(folder / "pets" / "audits" / name)
        assert stored.manifest["name"] == name and stored.pool["query_id"].tolist() == ["q_1"]


STORE_REPLIES = """
from pathlib import Path
from querytruth.backends.models.reply_store import ReplyStore, open_reply_store
from tests.crashes.recorded_programs import IDENTITY, answered
for number in range(3):
    with open_reply_store(Path(sys.argv[1]) / "sets" / "replies.sqlite") as store:
        store.save(IDENTITY, [answered(number)])
        print(number, flush=True)
"""
IDENTITY = ModelIdentity("stub", "1")


def answered(number: int) -> tuple[str, ChatRequest, Reply]:
    request = ChatRequest((Message("user", f"问题 {number}"),))
    return reply_key(IDENTITY, request), request, Reply(f"答案 {number}", "stop", 1, 1, f'{{"n": {number}}}')


def check_replies(folder: Path, printed: list[str]) -> None:
    """Every reply that was acknowledged is there, as it came."""
    known = {key: reply for key, _, reply in map(answered, range(3))}
    with open_reply_store(folder / "sets" / "replies.sqlite") as store:
        found = store.find(list(known))
        assert all(found[key].text == known[key].text for key in found)
        assert set(list(known)[: len(printed)]) <= set(found), "an acknowledged reply is gone"
        store.save(IDENTITY, [answered(0)])
        assert answered(0)[0] in store.find(list(known))


PROGRAMS = {
    "publish": RecordedProgram(PUBLISH_TWICE, check_versions, (".publish", "rendered"), 80),
    "fetch": RecordedProgram(INSTALL, check_fetched_version, (".publish", "elsewhere", "cache"), 10),
    "decisions": RecordedProgram(SAVE_THREE_TIMES, check_decisions, (), 20),
    "pages": RecordedProgram(STORE_PAGES, check_pages, ("fetches.sqlite-shm",), 100),  # SQLite makes it anew
    "audits": RecordedProgram(START_TWICE, check_audits, (".start-first", ".start-second"), 10),
    "replies": RecordedProgram(STORE_REPLIES, check_replies, ("replies.sqlite-shm",), 200),
}
