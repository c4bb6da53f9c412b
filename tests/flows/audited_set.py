"""A small set with a system's run, and a person who answers the sample of its audit by the set's own truth."""

from dataclasses import dataclass
from pathlib import Path

from querytruth.audit.answers import load_audit, take_answers
from querytruth.audit.audit_files import audit_folder
from querytruth.sets.decision_records import QueryDecision
from tests.small_sets import COLOURS, image_id_of, publish_small_set, query_id_of, small_tables

RELEVANT = {"dog": {"dog", "beach"}, "狗": {"beach", "dog"}, "cat": {"cat"}, "none": set[str]()}
TRUTH = {query_id_of(query): {image_id_of(name) for name in names} for query, names in RELEVANT.items()}
# All 16 pairs are judged: the set lacks one of the five relevant pairs, and none of its four is wrong.
ALL_ANSWERED = "small/v1: missing 20.0% (20.0% to 20.0%), wrong 0.0% (0.0% to 0.0%); 16 of 16 pairs answered"


@dataclass(frozen=True, slots=True)
class AuditedSet:
    """The version, the run of a system that returns every image, and the folder of the audit."""

    path: Path
    run: Path

    @property
    def folder(self) -> Path:
        """Where the audit lies."""
        return audit_folder(self.path.parent, "audit")

    def answer(self, number: int, reviewer: str = "lin", *, wrong: int = 0) -> None:
        """Answers the first pairs of the sample, the first `wrong` of them falsely; answers that are there are kept."""
        audit, stored = load_audit(self.path, "audit")
        texts = dict(zip(stored.tables.queries["query_id"], stored.tables.queries["text"], strict=True))
        answers = []
        for place, row in enumerate(audit.sample.head(number).itertuples()):
            fits = (row.image_id in TRUTH[row.query_id]) != (place < wrong)
            answers.append(
                QueryDecision(
                    row.query_id,
                    texts[row.query_id],
                    "grade",
                    row.image_id,
                    relevance=int(fits),
                    reviewer=reviewer,
                    view="audit",
                    source=audit.manifest["audit_id"],
                    at=f"2026-01-01T00:00:{place:02}+00:00",
                )
            )
        take_answers(self.path, answers, [])


def make_audited_set(folder: Path) -> AuditedSet:
    """Publishes the set below `folder`/sets; no audit is drawn yet."""
    render = {"size": 32, "mode": "longer_side"}
    stored = publish_small_set(folder, small_tables(), render=render, size=(32, 30))  # models take 28 and more
    run = folder / "tiny.trec"
    rows = [f"{query} Q0 {image_id_of(name)} 0 {-rank} x" for query in TRUTH for rank, name in enumerate(COLOURS)]
    run.write_text("\n".join(rows) + "\n")
    return AuditedSet(stored.path, run)
