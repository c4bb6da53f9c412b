"""The precision set: annotations in, a published set out.

annotations ─► gallery ─► searchable labels ─► mixes ─► judged queries ─► judge ─► people's decisions ─► set v<N>
"""

from typing import TYPE_CHECKING, Any

from builders.gallery.render_steps import render_every_image
from builders.gallery.steps import mark_duplicates
from builders.judged_pairs import judge_candidates
from builders.precision import label_steps, steps
from builders.precision.boxes import build_box_table
from builders.precision.definition import PrecisionDefinition
from builders.precision.families import family_queries
from builders.precision.phrasing_steps import PHRASING_LIMITATION, add_phrasings, forecast_phrasings
from builders.publication import BuiltTables
from flows.flow_entrypoint import make_flow_getattr, run_flow_script
from flows.requests import PrecisionBuild
from flows.set_kind import SetKind
from querytruth.questions import open_chat_session
from querytruth.records import empty_frame
from querytruth.sets import benchmark_set, decision_outcomes
from querytruth.sets.ledger import Ledger
from querytruth.sets.manifest import Prompt, Provenance
from querytruth.sets.manifest_notes import Notes

PRECISION_LIMITATIONS = [
    "The ground truth follows the annotations: an object that nobody annotated makes a right answer count as wrong.",
    "Queries for frequent labels have very many relevant images: recall at a small k says little about them.",
]


def build_precision_tables(definition: PrecisionDefinition) -> BuiltTables:
    """Return the set before it is published: tables, ledger and provenance."""
    ledger = Ledger()
    mined = steps.mine_seeds(definition, ledger)
    labels, seeds, images = mined.labels, mined.seeds, mined.gallery.images
    wording = steps.get_wording(labels, definition)
    judged = steps.judge_seeds(mined, definition, wording)
    duplicates, decision_outcome, rendered_folder = empty_frame("duplicates"), decision_outcomes.DecisionOutcome(), None
    boxes = build_box_table(mined.gallery, labels.tree.concepts, labels.compatibility, mined.found)
    session, found_by, limitations = open_chat_session(definition), Provenance(), list(PRECISION_LIMITATIONS)
    notes: Notes = {
        "parents": [labels.tree.concepts[mix[0]].key for mix in seeds.loc[seeds["parent"], "concepts"]],
        "accepted_pairs_declared": labels.compatibility.declared_pairs,
        "accepted_pairs_closed": labels.compatibility.closed_pairs,
    }
    if definition.has_phrasings:
        judged, found_by = add_phrasings(judged, labels, definition, session, ledger)
        limitations.append(PHRASING_LIMITATION)
    if mined.scanned is not None:
        folder = definition.out / definition.name
        images, groups, compared = mark_duplicates(images, mined.scanned, definition.near_duplicates, folder)
        found_by += compared
        duplicates, decision_outcome = groups.table, groups.decision_outcome
        if definition.render:
            images, rendered_folder = render_every_image(images, list(images["sha256"]), definition.render, folder)
    sentences = wording.sentences.values() if "sentence" in definition.texts else []
    tables = benchmark_set.Tables(
        judged.queries, images, judged.qrels, duplicates=duplicates, boxes=boxes, candidate_judgments=judged.candidates
    )
    if definition.judge is not None:
        seen = judge_candidates(definition, tables, rendered_folder, session)
        tables, notes["judge"] = seen.apply_to(tables), seen.figures
        limitations += seen.limitations()
        seen.record(ledger)
    return BuiltTables(
        tables=tables,
        ledger=ledger,
        grades=family_queries.describe_grades(definition.grades, definition.families),
        provenance=Provenance(
            inputs=mined.inputs,
            prompts=[Prompt(name=sentence.name, sha256=sentence.sha256) for sentence in sentences],
            thresholds=label_steps.list_precision_thresholds(definition),
        )
        + session.provenance()
        + found_by,
        notes=notes,
        known_limitations=limitations,
        rendered_folder=rendered_folder,
        model_calls=session.call_counts(),
        decision_outcome=decision_outcome,
    )


def plan_precision(definition: PrecisionDefinition) -> dict[str, Any]:
    """Return the funnel of a build and the size of the set; nothing is rendered, judged or written."""
    ledger = Ledger()
    mined = steps.mine_seeds(definition, ledger)
    labels, seeds = mined.labels, mined.seeds
    queries = steps.list_queries(mined, steps.get_wording(labels, definition))
    phrased = forecast_phrasings(queries, labels, definition) if definition.has_phrasings else {"model_calls": 0}
    asked = steps.count_proposed(mined) * definition.judge.calls_per_pair if definition.judge is not None else 0
    # Each judgment is there for each text of its question.
    texts = len(labels.languages) * (
        len(definition.styles) + (definition.phrasings.count if definition.phrasings else 0)
    )
    near_misses = definition.mixes.near_misses * int((seeds["level"] > 1).sum())
    judgment_count = int(seeds["support"].sum()) + near_misses
    judgment_count += sum(
        len(one.relevant) + min(len(one.wrong), definition.mixes.near_misses) for one in mined.questions
    )
    judgment_count *= texts
    pixels = (definition.render.size**2 if definition.render and definition.images else 0) * len(mined.gallery.images)
    levels = seeds.loc[~seeds["parent"], "level"].value_counts().sort_index()
    return {
        "funnel": ledger.funnel(),
        "levels": {str(level): int(count) for level, count in levels.items()},
        "parents": int(seeds["parent"].sum()),
        "seeds": len(seeds),
        "queries": len(queries),
        "judgments_at_most": judgment_count,
        **phrased,
        "judge_calls_at_most": asked,
        "bytes_about": int(8 * judgment_count + 0.2 * pixels),
        "derived_pairs": [f"{one} accepts {other}" for one, other in labels.derived_pairs],
    }


PRECISION_SET = SetKind(
    name="precision",
    summary="Make queries from detection labels, judge every image by its boxes, and publish a precision set.",
    build_tables=build_precision_tables,
    plan=plan_precision,
    parameters=PrecisionBuild,
)

if not TYPE_CHECKING:  # a type checker would accept every name
    __getattr__ = make_flow_getattr(PRECISION_SET)

if __name__ == "__main__":
    run_flow_script(PRECISION_SET)
