"""The answers of a search to the cases: recorded now, replayed, or read from a run; and the images that its ids name.

The folder is the gallery: a result that is not one of its images keeps its rank.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from querytruth.backends.files.durable_files import write_atomically
from querytruth.backends.files.safe_paths import read_regular
from querytruth.backends.id_patterns import find_pattern, map_names, match_column
from querytruth.backends.images.image_folder import ImageFolder
from querytruth.backends.images.image_headers import sniff_format
from querytruth.backends.search_systems import SearchHit, SystemFile
from querytruth.checks.golden_file import STAGE, GoldenFile
from querytruth.errors import UserError, translate_read_errors, translate_write_errors
from querytruth.evaluation import system_answers
from querytruth.evaluation.system_answers import AskOptions, QuerySearch, SystemAnswer

NO_IMAGE = "no image: "  # before the id of a result that is no image of the folder


def ask_cases(golden: GoldenFile, described: SystemFile, file: Path, options: AskOptions) -> list[SystemAnswer]:
    """Return the answer to each case, and record them in the file; offline the recorded ones. Raises UserError where
    the service answers none."""
    depth, recorded = golden.asked, dict[str, bytes]()
    texts = [case.query for case in golden.cases]
    asked = [QuerySearch(text, text, partial(described.system.search, text, depth)) for text in texts]
    if options.is_offline and file.exists():
        with translate_read_errors(STAGE, file, "run once without --offline", also=(ValueError, AttributeError)):
            recorded = {str(key): json.dumps(one).encode() for key, one in json.loads(read_regular(file)).items()}
    known = recorded.copy()
    answers, _ = system_answers.ask_and_record(described, asked, depth, options, lambda _: known, recorded.update)
    if all(answer.failure for answer in answers):
        reason = f"answered none of the {len(answers):,} queries ({system_answers.describe_failures(answers)})"
        raise UserError(system_answers.ASK_STAGE, described.name, reason, system_answers.TRY_ONE)
    if not options.is_offline:  # a line each, so that a diff shows which answers changed
        lines = ",\n".join(f"{json.dumps(key)}: {data.decode()}" for key, data in recorded.items())
        with translate_write_errors("record answers", file):
            write_atomically(file, f"{{\n{lines}\n}}\n".encode())
    return answers


def read_run_answers(golden: GoldenFile, run: Path) -> list[SystemAnswer]:
    """Return the results of each case in a run, whose queries are named by the case's id or text. Raises UserError for
    a run without any of them."""
    from querytruth.evaluation.run_files import read_run
    from querytruth.evaluation.run_matching import rank_first_results

    pair, hits = ["query_id", "image_id"], dict[str, list[SearchHit]]()
    table = read_run(run).astype(dict.fromkeys(pair, "str"))
    first = rank_first_results(table, golden.asked).merge(table.drop_duplicates(pair), on=pair)
    for row in first.sort_values(["query_id", "rank"]).itertuples():
        hits.setdefault(row.query_id, []).append(SearchHit(row.image_id, row.score))
    found = [hits.get(case.id) or hits.get(case.query, []) for case in golden.cases]
    if not any(found):
        next_step = "set each case's query to its text in the run, or give each case the id from the run"
        raise UserError(STAGE, run, f"has none of the queries of the cases (it has {min(hits)[:80]!r})", next_step)
    return [SystemAnswer(tuple(one), failure="" if one else "not_in_the_run") for one in found]


def match_answers(
    answers: Sequence[SystemAnswer], root: Path, form: str, search: str, *, allow_unclear: bool = False
) -> list[SystemAnswer]:
    """Return the answers with the names of images below `root` as ids, NO_IMAGE before the others; an image counts
    once. `form`: of the ids. Raises UserError where no id is an image, and for one that could be several unless
    `allow_unclear`: it then names none."""
    ids = sorted({hit.id for answer in answers for hit in answer.hits if hit.id})
    names = [name for name in ImageFolder(root).list_names() if _is_image(root / name)]
    # What states no form is matched as a run is.
    files = match_column(ids, [(name, name) for name in names], True) if form == "image_id" else map_names(names, form)
    by_id = {name: files[name] for name in ids if name in files}
    unclear = [one for one, images in by_id.items() if len(images) > 1]
    if unclear and not allow_unclear:
        reason = f"matches several images ({' or '.join(sorted(by_id[unclear[0]])[:3])})"
        raise UserError(STAGE, f"{search}: {unclear[0]}", reason, "return paths relative to the folder")
    if ids and not by_id:
        import pandas as pd

        pattern = find_pattern(ids, pd.DataFrame({"image_id": names, "file_name": names}))
        next_step = f'write ids: "{pattern[0]}" into its file' if pattern else "check images, and ids in its file"
        raise UserError(STAGE, search, f"returned no image of {root} (such as {ids[0][:80]!r})", next_step)
    matched = []
    for answer in answers:
        hits: dict[object, SearchHit] = {}
        for place, hit in enumerate(answer.hits):
            image = "" if hit.id in unclear else min(by_id.get(hit.id, ()), default="")
            score = hit.score if hit.score is not None and math.isfinite(hit.score) else None
            hits.setdefault(image or hit.id or place, SearchHit(image or NO_IMAGE + hit.id, score))
        matched.append(replace(answer, hits=tuple(hits.values())))
    return matched


def _is_image(path: Path) -> bool:
    with translate_read_errors(STAGE, path, "make it readable"), path.open("rb") as file:
        return sniff_format(file.read(64)) is not None
