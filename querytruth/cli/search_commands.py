"""`querytruth search`: one query on a set, by any system; or a trial of a search service."""

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from querytruth import terminal
from querytruth.cli.command_line import command, refuse_options
from querytruth.cli.options import JsonOption
from querytruth.evaluation.requests import SearchRequest
from querytruth.requests import ByPlace, WrongRequestError


class TypedSearch(SearchRequest):
    """A search as it is typed; a trial needs no set."""

    of: Annotated[str | None, ByPlace("SET")] = Field(  # type: ignore[assignment]
        None, description="name, name/v3 or a path; not needed for a trial."
    )
    text: Annotated[str | None, ByPlace("TEXT")] = Field(  # type: ignore[assignment]
        None, description="Query text: of the set, or a new one."
    )
    trial: bool = Field(False, description="Send one query to a service: show its answer, and how it maps to the set.")

    @model_validator(mode="before")
    @classmethod
    def _take_text(cls, values: dict[str, Any]) -> dict[str, Any]:
        if values.get("trial") and values.get("text") is None:
            return {**values, "of": None, "text": values.get("of")}
        return values

    @model_validator(mode="after")
    def _check_words(self) -> Self:
        if self.text is None or (self.of is None and not self.trial):
            raise WrongRequestError("SET TEXT", "are both required", "without a set, add --trial")
        if self.trial and self.system is None:
            raise WrongRequestError("trial", "needs a search service", "give --system FILE.yaml")
        return self


@command
def search(json: JsonOption = False, *, request: TypedSearch, given: frozenset[str] = frozenset()) -> None:
    """Run one query on a set with any system, and write a page of the first results, each relevant, not relevant or not
    judged.

    Example: querytruth search family-album "a dog on the beach" --run clip.trec

    Example: querytruth search family-album "a red car" --system my-search.yaml --trial
    """
    if request.trial:
        refuse_options(given, ("of", "text", "trial", "system", "k", "out", "json"), "search --trial")
        _try_service(request, str(request.text), json)
        return
    terminal.report(f"querytruth: reading {request.of}")
    from querytruth.api.evaluations import search_set

    text, page = request.text, request.page or Path("search.html")
    with terminal.reported_run():
        results = search_set(request.model_copy(update={"page": page}))
    if json:
        terminal.print_json(asdict(results))
        return
    rows: list[list[object]] = [
        [hit["rank"], hit["id"], "" if hit["grade"] is None else hit["grade"], hit["score"]] for hit in results.hits
    ]
    terminal.print_table(f"{results.system}: {text}", ["rank", "id", "grade", "score"], rows)
    found = results.relevant_count - len(results.missed)
    about = f"{found:,} of {results.relevant_count:,} relevant images found"
    terminal.say(about if results.is_query else "this query is not in the set: its results are not judged")
    terminal.say(f"page written: {page}")


def _try_service(request: TypedSearch, text: str, json: bool) -> None:
    from flows.search import ask_once, explain_hits, map_hits
    from querytruth.backends.search_systems import load_system_file

    assert request.system is not None
    described, set_, out = load_system_file(request.system), request.of, request.out
    start = time.perf_counter()
    hits = ask_once(described, text, request.k)
    milliseconds = round((time.perf_counter() - start) * 1000, 1)
    rows = map_hits(hits, described, set_, out)
    if json:
        terminal.print_json({"milliseconds": milliseconds, "hits": rows})
    else:
        shown: list[list[object]] = [[row["rank"], row["id"], row["score"], row["maps_to"]] for row in rows]
        terminal.print_table(f"{described.name}: {text}", ["rank", "id", "score", "maps to"], shown)
        unmapped = sum(not row.get("query_id", row["image_id"]) for row in rows)
        lost = f"; {unmapped:,} match nothing in {set_}" if set_ else ""
        terminal.say(f"{len(rows):,} results in {milliseconds} ms{lost}")
        for line in explain_hits(hits, described, text, set_, out):
            terminal.say(line)
