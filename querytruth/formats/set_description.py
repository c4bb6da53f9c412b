"""The description of an export (querytruth.json, README.md), what it needs of its set, and what it leaves out."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import yaml

from querytruth.audit.shortcuts import describe_shortcuts
from querytruth.backends.files.safe_paths import is_contained_name, read_regular
from querytruth.backends.files.text_files import import_error, read_json_file, require_file
from querytruth.backends.files.text_formats import load_yaml
from querytruth.errors import UserError, translate_read_errors
from querytruth.formats.set_card import render_set_card
from querytruth.formats.set_images import require_images
from querytruth.sets.absent_queries import list_absent
from querytruth.sets.benchmark_set import Tables, canonical_json, get_render_options
from querytruth.sets.published_files import describe_notice
from querytruth.sets.set_files import StoredSet

# What a format leaves out: a description, or a function that counts it and returns '' where there is none.
Loss = str | Callable[[Tables], str]
_ROWS = 10_000
DESCRIPTION_FILE = "querytruth.json"
_LONGEST_PATTERN = 500
_LARGEST_README = 64 << 20  # bytes


@dataclass(frozen=True, slots=True)
class FormatLimits:
    """What a format needs and leaves out. Losses in `changes_figures` change metrics and are an error unless
    allowed."""

    needs_queries: bool = True
    needs_images: bool = False
    changes_figures: tuple[Loss, ...] = ()
    omissions: tuple[Loss, ...] = ()

    def check(self, stored: StoredSet, name: str, allow_loss: bool) -> list[str]:
        """Return descriptions of what the format leaves out of the set. Raises UserError where the set lacks what the
        format needs, or a loss is not allowed."""
        if self.needs_queries and not len(stored.tables.queries):
            raise UserError("export", stored.path, "has no queries", "export a recall, precision or generated set")
        if self.needs_images:
            require_images(stored)
        lost = _describe(self.changes_figures, stored.tables)
        if lost and not allow_loss:
            reason = f"has content that {name} cannot hold: {'; '.join(lost)}"
            next_step = "give --allow-loss to export without it, or choose beir, mteb or trec"
            raise UserError("export", stored.path, reason, next_step)
        return lost + _describe(self.omissions, stored.tables)


def _describe(losses: Iterable[Loss], tables: Tables) -> list[str]:
    descriptions = (loss if isinstance(loss, str) else loss(tables) for loss in losses)
    return [description for description in descriptions if description]


def relevant_pairs(stored: StoredSet) -> pd.DataFrame:
    """Return the pairs with relevance above 0 whose query and image are in the set, as text columns query_id and
    image_id, sorted."""
    queries, images, qrels = stored.tables.queries, stored.tables.images, stored.tables.qrels
    is_known = qrels["query_id"].isin(queries["query_id"]) & qrels["image_id"].isin(images["image_id"])
    pairs = qrels.loc[is_known & (qrels["relevance"] > 0), ["query_id", "image_id"]].astype("str")
    return pairs.sort_values(["query_id", "image_id"], ignore_index=True)


def iterate_rows(frame: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield the rows as plain values by column."""
    for start in range(0, len(frame), _ROWS):
        for record in frame.iloc[start : start + _ROWS].to_dict("records"):
            yield {str(name): value for name, value in record.items()}


def iterate_qrels(tables: Tables) -> Iterator[tuple[str, str, int]]:
    """Yield query id, image id and relevance of every judgment."""
    qrels = tables.qrels
    yield from zip(qrels["query_id"].astype(str), qrels["image_id"].astype(str), qrels["relevance"], strict=True)


def graded_relevance(tables: Tables) -> str:
    """Describe grades above 0, where there are several."""
    relevance = tables.qrels["relevance"]
    counts = relevance[relevance > 0].value_counts().sort_index()
    if len(counts) < 2:
        return ""
    shown = ", ".join(f"{number:,} of grade {grade}" for grade, number in counts.items())
    return f"grades ({shown}; all of them count as relevant)"


def judged_zeros(tables: Tables) -> str:
    """Describe judgments with grade 0."""
    number = int((tables.qrels["relevance"] == 0).sum())
    return f"{number:,} images judged not relevant (they look unjudged)" if number else ""


def several_relevant_images(tables: Tables) -> str:
    """Describe queries with several relevant images."""
    sizes = tables.qrels.loc[tables.qrels["relevance"] > 0, "query_id"].value_counts()
    number, split = int((sizes > 1).sum()), int(sizes[sizes > 1].sum())
    if not number:
        return ""
    return f"{number:,} queries with several relevant images (split into {split:,}, each with one of them)"


def no_relevant_image(tables: Tables) -> str:
    """Describe queries without a relevant image."""
    answered = tables.qrels.loc[tables.qrels["relevance"] > 0, "query_id"].unique()
    number = int((~tables.queries["query_id"].isin(set(answered))).sum())
    return f"{number:,} queries without a relevant image (left out)" if number else ""


def whitespace_in_texts(tables: Tables) -> str:
    """Describe white space that a line of a file cannot contain."""
    texts = tables.queries["text"]
    number = int((texts != texts.map(collapse_whitespace)).sum())
    return f"the tabs, line ends and double blanks of {number:,} texts" if number else ""


def lost_columns(name: str, kept: Collection[str]) -> Callable[[Tables], str]:
    """Return a function that names the columns of a table that have values and are not kept."""

    def describe(tables: Tables) -> str:
        frame = getattr(tables, name)
        lost = [str(column) for column in frame if column not in kept and frame[column].notna().any()]
        return f"of {name}: {', '.join(lost)}" if lost else ""

    return describe


def absent_queries(tables: Tables) -> str:
    """Describe our queries without an answer, marked by their column `stratum`."""
    number = len(list_absent(tables.queries, tables.qrels, len(tables.images)))
    return f"the fact that {number:,} queries have no answer in the gallery (they look unjudged)" if number else ""


def candidate_judgments(tables: Tables) -> str:
    """Describe candidate judgments."""
    return "the candidate judgments" if len(tables.candidate_judgments) else ""


def query_aliases(tables: Tables) -> str:
    """Describe the further ids of queries."""
    number = len(tables.query_aliases)
    return f"{number:,} further query ids of merged log lines" if number else ""


def collapse_whitespace(text: str) -> str:
    """Return the text with a single blank for each run of white space."""
    return " ".join(text.split())


CHANGED_BY_SINGLE_ANSWERS = (several_relevant_images, graded_relevance, judged_zeros, no_relevant_image)
NO_METADATA = (
    lost_columns("queries", {"query_id", "text"}),
    absent_queries,
    lost_columns("images", {"image_id", "path", "width", "height", "rendered_width", "rendered_height"}),
    lost_columns("qrels", {"query_id", "image_id", "relevance"}),
)
# What even formats with all tables leave out: how the set was built.
NO_LEDGER = ("the ledger of rejected items", candidate_judgments, query_aliases)


class RenderDescription(msgspec.Struct):
    """The `render` of a definition."""

    size: int
    mode: str


class SetDescription(msgspec.Struct):
    """The identity of a set, the meaning of its grades, and how its images were rendered."""

    name: str
    version: int
    kind: str
    title: str
    licence: str
    content_digest: str
    grades: dict[str, str]
    known_limitations: list[str] = msgspec.field(name="faults")
    render: RenderDescription | None = None


def write_description(stored: StoredSet, out: Path) -> None:
    """Write the description into an export's folder."""
    stated: Mapping[str, Any] = stored.manifest
    fields = {name: stated[name] for name in SetDescription.__struct_fields__ if name != "render"}
    render: Mapping[str, Any] = get_render_options(stored.manifest)
    described = SetDescription(**fields, render=RenderDescription(**render) if render else None)
    (out / DESCRIPTION_FILE).write_bytes(canonical_json(msgspec.to_builtins(described)))


def read_description(folder: Path) -> SetDescription | None:
    """Return the description in an export's folder, or None. Raises UserError for an invalid one."""
    path = folder / DESCRIPTION_FILE
    return read_json_file(path, SetDescription) if path.is_file() else None


def write_readme(stored: StoredSet, out: Path, configs: list[dict[str, Any]], how_to_load: str) -> None:
    """Write the set's card, with a front matter that names the files of every config. The card is generated anew: the
    card of a received set may contain anything."""
    manifest = stored.manifest
    front = {
        "pretty_name": manifest["title"],
        "license": manifest["licence"].lower().replace(" ", "-") or "other",
        "language": sorted(set(stored.tables.queries["language"])),
        "tags": ["text-to-image-retrieval", "querytruth"],
        "configs": configs,
    }
    limits = [*describe_shortcuts(stored.tables), *describe_notice(stored.path, manifest["content_digest"])]
    _, _, body = render_set_card(manifest, stored.tables, limits).removeprefix("---\n").partition("\n---\n")
    text = f"---\n{yaml.safe_dump(front, allow_unicode=True, sort_keys=False)}---\n{body.rstrip()}\n\n{how_to_load}"
    (out / "README.md").write_text(text, "utf-8", newline="\n")


def find_config_files(folder: Path, split: str) -> dict[str, list[Path]]:
    """Return the Parquet files of every config: those in the README's front matter, else those of each folder."""
    if not folder.is_dir():
        raise import_error(folder, "is not a folder", "give the folder that holds README.md and the Parquet files")
    files_by_config = {name: _files(folder, data, split) for name, data in _named_configs(folder / "README.md")}
    if not files_by_config:
        folders = sorted({path.parent for path in folder.rglob("*.parquet")})
        files_by_config = {
            path.name: _files(folder, str(path.relative_to(folder) / "*.parquet"), split) for path in folders
        }
    if not any(files_by_config.values()):
        next_step = "check the path; a repository's large files may be missing"
        raise import_error(folder, "has no Parquet files", next_step)
    return files_by_config


def _named_configs(readme: Path) -> list[tuple[str, Any]]:
    text = ""
    if readme.is_file():
        with translate_read_errors("import", readme, "remove the file"):
            text = read_regular(require_file(readme), _LARGEST_README).decode("utf-8", "replace")
    if not text.startswith("---\n"):
        return []
    try:
        front = load_yaml(text[4:].partition("\n---")[0])
        return [(str(entry["config_name"]), entry["data_files"]) for entry in front.get("configs", [])]
    except (yaml.YAMLError, KeyError, TypeError, AttributeError, ValueError):
        raise import_error(readme, "has a front matter without configs", "fix it, or remove the file") from None


def _files(folder: Path, data: object, split: str) -> list[Path]:
    """Return the files of the split, or of the only split."""
    if isinstance(data, list) and data and all(isinstance(entry, dict) for entry in data):
        by_split = {str(entry.get("split")): entry.get("path") for entry in data}
        data = by_split[split] if split in by_split else next(iter(by_split.values())) if len(by_split) == 1 else []
    patterns = [data] if isinstance(data, str) else data
    root, matches = folder.resolve(), set[Path]()
    for pattern in patterns if isinstance(patterns, list) else []:
        if isinstance(pattern, str) and is_contained_name(pattern) and _is_simple(pattern):
            matches |= {path for path in folder.glob(pattern) if path.is_file() and path.suffix == ".parquet"}
    return sorted(path for path in matches if path.resolve().is_relative_to(root))


def _is_simple(pattern: str) -> bool:
    """Return whether a search for the pattern walks through every folder once at most."""
    return len(pattern) <= _LONGEST_PATTERN and pattern.count("**") <= 1
