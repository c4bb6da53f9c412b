"""What an export format needs of a set, and what it leaves out."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from backends.interchange.set_images import require_images
from backends.sets.set_files import StoredSet
from builders.benchmark_set import Tables
from builders.errors import UserError

# What a format leaves out: a description, or a function that counts it and returns '' where there is none.
Loss = str | Callable[[Tables], str]
_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class FormatLimits:
    """What a format needs and leaves out. Losses in `changes_figures` change metrics: they are an error unless
    allowed."""

    needs_queries: bool = True
    needs_images: bool = False
    changes_figures: tuple[Loss, ...] = ()
    omissions: tuple[Loss, ...] = ()

    def check(self, stored: StoredSet, name: str, allow_loss: bool) -> list[str]:
        """Returns descriptions of what the format leaves out of the set. Raises UserError where the set lacks what the
        format needs, or a loss is not allowed."""
        if self.needs_queries and not len(stored.tables.queries):
            raise UserError("export", stored.path, "holds no queries", "export a recall, precision or generated set")
        if self.needs_images:
            require_images(stored)
        lost = _describe(self.changes_figures, stored.tables)
        if lost and not allow_loss:
            reason = f"has what {name} cannot hold: {'; '.join(lost)}"
            next_step = "give --allow-loss to lose that, or choose beir, mteb or trec"
            raise UserError("export", stored.path, reason, next_step)
        return lost + _describe(self.omissions, stored.tables)


def _describe(losses: Iterable[Loss], tables: Tables) -> list[str]:
    descriptions = (loss if isinstance(loss, str) else loss(tables) for loss in losses)
    return [description for description in descriptions if description]


def relevant_pairs(stored: StoredSet) -> pd.DataFrame:
    """Returns the pairs with relevance above 0 whose query and image are in the set, as text columns query_id and
    image_id, sorted."""
    queries, images, qrels = stored.tables.queries, stored.tables.images, stored.tables.qrels
    is_known = qrels["query_id"].isin(queries["query_id"]) & qrels["image_id"].isin(images["image_id"])
    pairs = qrels.loc[is_known & (qrels["relevance"] > 0), ["query_id", "image_id"]].astype("str")
    return pairs.sort_values(["query_id", "image_id"], ignore_index=True)


def iterate_rows(frame: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yields the rows as plain values by column."""
    for start in range(0, len(frame), _ROWS):
        for record in frame.iloc[start : start + _ROWS].to_dict("records"):
            yield {str(name): value for name, value in record.items()}


def iterate_qrels(tables: Tables) -> Iterator[tuple[str, str, int]]:
    """Yields query id, image id and relevance of every judgment."""
    qrels = tables.qrels
    yield from zip(qrels["query_id"].astype(str), qrels["image_id"].astype(str), qrels["relevance"], strict=True)


def graded_relevance(tables: Tables) -> str:
    """Describes grades above 0, where there are several."""
    relevance = tables.qrels["relevance"]
    counts = relevance[relevance > 0].value_counts().sort_index()
    if len(counts) < 2:
        return ""
    shown = ", ".join(f"{number:,} of grade {grade}" for grade, number in counts.items())
    return f"grades ({shown}; all of them count as right)"


def judged_zeros(tables: Tables) -> str:
    """Describes judgments with grade 0."""
    number = int((tables.qrels["relevance"] == 0).sum())
    return f"{number:,} pictures judged not relevant (they look unjudged)" if number else ""


def several_relevant_images(tables: Tables) -> str:
    """Describes queries with several relevant images."""
    sizes = tables.qrels.loc[tables.qrels["relevance"] > 0, "query_id"].value_counts()
    number, split = int((sizes > 1).sum()), int(sizes[sizes > 1].sum())
    if not number:
        return ""
    return f"{number:,} queries with several right pictures (split into {split:,}, each with one of them)"


def no_relevant_image(tables: Tables) -> str:
    """Describes queries without a relevant image."""
    answered = tables.qrels.loc[tables.qrels["relevance"] > 0, "query_id"].unique()
    number = int((~tables.queries["query_id"].isin(set(answered))).sum())
    return f"{number:,} queries without a right picture (left out)" if number else ""


def whitespace_in_texts(tables: Tables) -> str:
    """Describes white space that a line of a file cannot contain."""
    texts = tables.queries["text"]
    number = int((texts != texts.map(collapse_whitespace)).sum())
    return f"the tabs, line ends and double blanks of {number:,} texts" if number else ""


def families_and_twins(tables: Tables) -> str:
    """Describes the families of queries, by which figures are sliced, and their twins."""
    families = tables.queries["family"] if "family" in tables.queries else pd.Series(dtype="object")
    number = int(families.notna().sum())
    return f"the families and twins of {number:,} queries" if number else ""


def candidate_judgments(tables: Tables) -> str:
    """Describes candidate judgments."""
    return "the candidate judgments" if len(tables.candidate_judgments) else ""


def collapse_whitespace(text: str) -> str:
    """Returns the text with a single blank for each run of white space."""
    return " ".join(text.split())


CHANGED_BY_SINGLE_ANSWERS = (several_relevant_images, graded_relevance, judged_zeros, no_relevant_image)
NO_METADATA = (
    "languages, styles, levels and labels of queries",
    families_and_twins,
    "what is known of pictures",
    "who judged and why",
)
# What even formats with all tables leave out: how the set was built.
NO_LEDGER = ("the ledger of what was left out", candidate_judgments)
