"""Builds a published version again from its manifest, and has a model asked again that changed behind its name."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from builders.generated.definition import GeneratedDefinition
from builders.precision.definition import PrecisionDefinition
from builders.publication import BuiltTables
from builders.recall.definition import RecallDefinition
from builders.recall.nested_sets import rebuild_nested_set
from flows.definition_loader import parse_definition
from flows.set_kinds import SET_KINDS
from querytruth.backends.files.column_profile import use_table_options
from querytruth.backends.models.cached_replies import NOT_RECORDED
from querytruth.backends.models.stored_answers import replies_as_of
from querytruth.definitions import SetDefinition
from querytruth.errors import UserError, suggest_choice
from querytruth.questions import open_definition_replies
from querytruth.records import from_arrow
from querytruth.sets import decision_application, decision_records, published_files
from querytruth.sets.benchmark_set import Tables, content_digest
from querytruth.sets.decision_log import check_no_decision_is_lost, pinned_decisions, read_decisions
from querytruth.sets.manifest import Manifest, read_manifest

_STAGE = "refresh replies"


@dataclass(frozen=True, slots=True)
class RebuiltVersion:
    """The version as built now, the names of the inputs whose bytes have changed, and lines on inputs that have moved
    since it was published."""

    tables: Tables
    digest: str
    inputs_changed: list[str]
    inputs_moved: list[str]

    def as_stored(self) -> Tables:
        """Return the tables with all columns and types that a stored version has, to compare them with one."""
        return Tables(**{name: from_arrow(table) for name, table in self.tables.to_arrow_tables().items()})


def rebuild_tables(path: Path, agree: Callable[[list[str]], bool] = lambda _lines: False) -> RebuiltVersion:
    """Build the version at `path` from the same inputs, configuration and decisions. Raises UserError where it has no
    definition or its inputs cannot be read.

    The definition in a set that this user did not publish here is a stranger's: its lines that name something outside
    the set are given to `agree`, and nothing is built unless that returns True.
    """
    manifest = read_manifest(path)
    check_no_decision_is_lost(path, "rebuild", accept_loss=None)
    if manifest["notes"].get("held_out"):
        next_step = "rebuild the set that it was split from, then train again"
        raise UserError("rebuild", path, "was held out by a training", next_step)
    definition: Any = manifest["envelope"].get("definition")
    if not isinstance(definition, dict):
        raise UserError("rebuild", path, "does not record the definition it was built from", "run querytruth build")
    folders = (Path.cwd(), *path.absolute().parents[1:3])
    moved: list[str] = []
    definition = {key: find_moved_inputs(value, (key,), folders, moved) for key, value in definition.items()}
    if not published_files.is_own_version(path):
        _check_agreed(definition, path, agree)
    _check_inputs(definition, path)
    # Where the version lies: its work is below its own folder, and sets that it names lie beside it.
    definition = definition | {"out": str(path.absolute().parents[1])}
    definition = parse_definition(definition, manifest["kind"], str(path / "manifest.json"))
    in_effect = set(manifest["decisions"]["in_effect"])
    # A stale decision may have changed which stage rejected an item.
    stale = {stale["decision"] for stale in manifest["decisions"]["stale"]}
    with pinned_decisions(in_effect | stale), replies_as_of(manifest["envelope"].get("created")):
        built = _build_again(definition, manifest, path)
    log = [
        decision
        for decision in read_decisions(path.parent, decision_records.QueryDecision)
        if decision.decision_id in in_effect
    ]
    tables, _ = decision_application.apply_decisions(built.tables, log, built.ledger)
    before = {entry["file"]: entry["sha256"] for entry in manifest["inputs"]}
    changed = [one["file"] for one in built.provenance.inputs if before.get(one["file"]) != one["sha256"]]
    tables = replace(tables, ledger=built.ledger.rows())
    return RebuiltVersion(tables, content_digest(tables.to_arrow_tables()), changed, moved)


def _build_again(definition: Any, manifest: Manifest, path: Path) -> BuiltTables:
    """Return the tables of the build. Raises UserError that states what is missing if the set came without replies."""
    try:
        if manifest["notes"].get("nested"):
            return rebuild_nested_set(definition, manifest, path.parent.parent)
        with use_table_options(definition.tables):
            return SET_KINDS[manifest["kind"]].build_tables(definition)
    except UserError as error:
        if NOT_RECORDED.reason not in error.reason:
            raise
        reason = "came without the replies of its models; show, verify, evaluate, review and export still work"
        next_step = f"copy {path.parent.name}/replies.sqlite beside the version, or ask the models again with --online"
        raise UserError("rebuild", path, reason, next_step) from None


def find_moved_inputs(value: object, keys: tuple[str, ...], folders: Sequence[Path], moved: list[str]) -> Any:
    """Return a value of a definition whose files and folders that are gone are taken from `folders`: by as much of the
    end of their path as is there. `moved` gets a line for each. Nothing is taken from outside of these folders."""
    if isinstance(value, dict):
        return {key: find_moved_inputs(inner, (*keys, str(key)), folders, moved) for key, inner in value.items()}
    if isinstance(value, list):
        return [find_moved_inputs(inner, keys, folders, moved) for inner in value]
    if keys[-1] in _HARMLESS_KEYS or not isinstance(value, str) or not _is_gone(value):
        return value
    parts = Path(value).parts[1:]
    ends = (folder.joinpath(*parts[start:]) for start in range(len(parts)) for folder in folders)
    found = next((end for end in ends if end.exists()), None)
    if found is None:
        return value
    moved.append(f"{'.'.join(keys)}: {found} (it was {value})")
    return str(found)


def _is_gone(value: str) -> bool:
    is_path = value.startswith("/") and len(value) < 4096 and value.isprintable() and ".." not in Path(value).parts
    return is_path and len(Path(value).parts) > 1 and not Path(value).exists()


def _check_inputs(definition: dict[str, Any], path: Path) -> None:
    """Raise UserError where an input of the version is missing."""
    missing = [f"{key} {definition[key]}" for key in _INPUT_KEYS if _is_gone(str(definition.get(key)))]
    if missing:
        names = " and ".join(Path(one.partition(" ")[2]).name for one in missing)
        reason = f"misses files it was built from: {', '.join(missing)[:120]}; verify, evaluate and export still work"
        raise UserError("rebuild", path, reason, f"copy {names} to this folder, or beside the set")


_INPUT_KEYS = ("images", "annotations", "queries")


def _check_agreed(definition: dict[str, Any], path: Path, agree: Callable[[list[str]], bool]) -> None:
    """Raise UserError without agreement."""
    lines = list(find_outside_names(definition))
    if lines and not agree(lines):
        more = f" and {len(lines) - 1} more" if len(lines) > 1 else ""
        reason = f"was not published on this machine, and its definition names {lines[0][:200]}{more}"
        raise UserError("rebuild", path, reason, "pass --trust-definition to read these lines and accept them")
    if definition.get("name") != path.parent.name:
        reason = f"contains the definition of another set, {str(definition.get('name'))[:80]!r}"
        raise UserError("rebuild", path, reason, "rename the folder to the name in its definition")


def find_outside_names(value: object, keys: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the lines of a definition (`captions.options.base_url: http://…`) that name a file, a folder, an address, a
    key or a model, in order, except `out`: a rebuild writes below the set's own folder."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if keys or key not in _HARMLESS_KEYS:
                yield from find_outside_names(inner, (*keys, str(key)))
    elif isinstance(value, list):
        for inner in value:
            yield from find_outside_names(inner, keys)
    elif value is not None and keys[-1] != "prompt":
        is_place = isinstance(value, str) and (value.startswith((".", "~")) or bool(set(value) & {"/", "\\"}))
        if is_place or "options" in keys or keys[-1] in _OUTSIDE_KEYS:
            yield f"{'.'.join(keys)}: {value}"


_HARMLESS_KEYS = {"out", "kind", "name", "title", "licence"}
_OUTSIDE_KEYS = {
    *("images", "annotations", "gallery", "uncovered_by", "replies", "samples", "model", "search"),
    *("embedder", "text_embedder", "image_embedder"),
}


def refresh_replies(definition: SetDefinition, model: str) -> int:
    """Set the stored replies of a model aside; return their number. The next build asks again; a rebuild of an older
    version uses them. Raises UserError for a model without replies."""
    if not isinstance(definition, RecallDefinition | GeneratedDefinition | PrecisionDefinition):
        raise UserError(_STAGE, definition.name, f"has kind {definition.kind}, which uses no model", "give another one")
    with open_definition_replies(definition) as store:
        known = store.identities()
        chosen = [identity for identity in known if identity.name == model]
        if not chosen:
            names = sorted(Counter(identity.name for identity in known))
            next_step = suggest_choice(model, names) if names else "build the set first"
            raise UserError(_STAGE, model, f"has no stored replies in {definition.name}", next_step)
        return store.refresh(chosen)
