"""Counts every image of a duplicate group as one image of the gallery, in judgments and in runs.

A search that returns a copy of an image has found that image, but not twice.
"""

from dataclasses import replace

import numpy as np
import pandas as pd

from builders.benchmark_set import Tables
from evaluation.identifiers import factorize_ids, find_positions, to_id_array


def find_representatives(duplicates: pd.DataFrame, image_ids: pd.Series) -> pd.Series:
    """Returns by id of an image the id of the one that it counts as, without images that count as themselves: the
    representative of its group, or the group's first id in the gallery where the representative is not in it. A group
    without an image in the gallery is left out. `duplicates`: the table of a set; `image_ids`: its gallery."""
    inside = duplicates[find_positions(to_id_array(image_ids), to_id_array(duplicates["image_id"])) >= 0]
    ordered = inside.sort_values(["is_representative", "image_id"], ascending=[False, True])
    lead = ordered.drop_duplicates("duplicate_group").set_index("duplicate_group")["image_id"]
    members = duplicates.drop_duplicates("image_id").set_index("image_id")["duplicate_group"]
    mapped = members.map(lead).dropna()
    return mapped[mapped != mapped.index].astype("str")


def fold_tables(tables: Tables, representatives: pd.Series) -> Tables:
    """Returns the tables with one image per duplicate group and its judgments. Of the grades that a query gives to the
    images of a group, the highest one counts."""
    is_copy = tables.images["image_id"].isin(representatives.index)
    if not is_copy.any():
        return tables
    images = tables.images[~is_copy].reset_index(drop=True)
    return replace(tables, images=images, qrels=_fold_qrels(tables.qrels, representatives))


def _fold_qrels(qrels: pd.DataFrame, representatives: pd.Series) -> pd.DataFrame:
    folded = qrels.assign(image_id=_fold_column(qrels["image_id"], representatives))
    order = np.argsort(-folded["relevance"].to_numpy(dtype=np.int64), kind="stable")
    query, image = (factorize_ids(folded[name])[0] for name in ("query_id", "image_id"))
    repeated = pd.DataFrame({"query": query[order], "image": image[order]}).duplicated().to_numpy()
    return folded.iloc[np.sort(order[~repeated])].reset_index(drop=True)


def fold_run(run: pd.DataFrame, representatives: pd.Series, column: str = "image_id") -> tuple[pd.DataFrame, int]:
    """Returns a run (query_id, image_id, score) in which each image is the one that it counts as, at its best score,
    and the number of rows that named another image of its group. `column`: `query_id` where images are the queries; of
    the results of several images of a group, those with the best scores count. A row that repeats another one stays."""
    codes, ids = factorize_ids(run[column])
    is_copy = np.asarray(pd.Index(ids.to_pandas()).isin(representatives.index))
    copied = is_copy[codes] & (codes >= 0)
    if not copied.any():
        return run, 0
    folded = run.assign(**{column: _fold_column(run[column], representatives)})
    groups = folded.loc[copied, column].astype("str").unique()
    affected = np.flatnonzero(folded[column].astype("str").isin(groups).to_numpy())
    part = folded.iloc[affected]
    order = np.argsort(-part["score"].to_numpy(dtype=np.float64), kind="stable")
    pair = ["query_id", "image_id"]
    repeated = part.iloc[order][pair].astype("str").duplicated().to_numpy()
    is_error = run.iloc[affected[order]][pair].astype("str").duplicated().to_numpy()  # the run repeats a row
    is_finite = np.isfinite(part["score"].to_numpy(dtype=np.float64)[order])
    repeated = repeated & ~is_error & is_finite
    counted = np.ones(len(run), dtype=bool)
    counted[affected[order[repeated]]] = False
    return folded[counted].reset_index(drop=True), int(copied.sum())


def _fold_column(ids: pd.Series, representatives: pd.Series) -> pd.Categorical:
    codes, known = factorize_ids(ids)
    names = pd.Series(known.to_pandas(), dtype="str")
    place, distinct = pd.factorize(names.map(representatives).fillna(names))
    return pd.Categorical.from_codes(np.append(place, -1)[codes], categories=pd.Index(distinct, dtype="str"))
