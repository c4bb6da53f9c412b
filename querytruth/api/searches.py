"""One query, tried on a system."""

from __future__ import annotations

from pathlib import Path

from builders.errors import UserError
from flows.scoring.image_names import read_named_images
from flows.scoring.judged_sets import load_judged_set
from flows.scoring.query_search import (
    QueryResults,
    check_page_language,
    search_by_model,
    search_by_system,
    search_in_run,
    write_search_page,
)
from querytruth.api.loaded_set import DATASETS_FOLDER, AnySet, find_version


def search(
    set_: AnySet,
    text: str,
    *,
    model: str | None = None,
    system: str | Path | None = None,
    run: str | Path | None = None,
    ids: str = "image_id",
    k: int = 20,
    page: str | Path | None = None,
    page_language: str = "en",
    out: str | Path = DATASETS_FOLDER,
) -> QueryResults:
    """Try one query, of the set or a new one, on a model, a search service (YAML) or a run file: the result has `hits`
    with rank, id, score and grade (None: not judged), and `missed`, the relevant images that are not among them.
    `page`: an HTML page with the images. Raises UserError."""
    if sum(one is not None for one in (model, system, run)) != 1:
        raise UserError("search", text, "needs one system", "name one: model, system or run")
    check_page_language(page_language)
    judged = load_judged_set(find_version(set_, out, remote="whole"))
    if model is not None:
        results = search_by_model(judged, model, text, k)
    elif run is not None:
        results = search_in_run(judged, Path(run), text, k, ids)
    else:
        assert system is not None and judged.stored is not None
        results = search_by_system(judged, Path(system), text, k, read_named_images(judged.stored.path))
    if page is not None:
        write_search_page(results, judged, Path(page), page_language)
    return results
