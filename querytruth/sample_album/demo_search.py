"""Two search services of the sample album on loopback; one lacks a part of the images. They are evaluated as live
systems, gated against each other, and put on the leaderboard.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from flows import evaluation, gate
from flows.check import check
from querytruth.audit.notice import notice_set
from querytruth.audit.requests import NoticeRequest
from querytruth.backends.files.durable_files import write_atomically, write_page
from querytruth.backends.search_systems import load_system_file
from querytruth.backends.steps import step
from querytruth.checks.verdicts import CheckReport
from querytruth.errors import translate_write_errors
from querytruth.evaluation import baselines, judged_sets, live_systems, release_gate, run_formats, system_answers
from querytruth.evaluation.requests import EvaluationOptions
from querytruth.evaluation.steps import StoredResult, find_result_folder
from querytruth.evaluation.systems import load_run_system

_INDEX_ENDS = "2025-10"  # of the search that lacks the newest images
_SERVICES = {"search": 1, "stale-search": 5}  # by name: every n-th image is missing from the index; 1: none is
_GOLDEN = 12  # queries
_GATE = release_gate.GateSpec({"ndcg@10": 0.02})


@step("sample search services")
def evaluate_sample_search(
    version: Path, texts: Path, folder: Path, album: Path
) -> tuple[list[StoredResult], list[release_gate.GateReport], list[CheckReport]]:
    """Serve the album's search by `texts`, the CSV with texts of the images, and evaluate it on the version of a set.
    Writes the files that describe the services, golden.yaml and the reports of its checks into `folder`. Return the
    results of the whole and of the stale service; the gates of the stale one against the whole one, and the other way
    round; and the checks of both on the images in `album`."""
    judged = judged_sets.load_judged_set(version)
    assert judged.images is not None
    image_texts = run_formats.read_image_texts(texts, judged.images)
    with ExitStack() as services:
        systems = []
        for name, period in _SERVICES.items():
            missing = set(judged.images["image_id"].sort_values()[::period]) if period > 1 else set()
            url = services.enter_context(system_answers.serve_search(_make_search(judged.images, image_texts, missing)))
            file = _describe(folder / f"{name}.yaml", url)
            systems.append(
                live_systems.make_live_system(
                    load_system_file(file), judged, system_answers.AskOptions(is_refreshed=True)
                )
            )
            _remove_result(find_result_folder(judged, systems[-1], "text_to_image"))
        results = list(evaluation.evaluate_systems(judged, systems, ("text_to_image",), EvaluationOptions(page=False)))
        checks = [*_check_services(judged, folder, album)]
    whole, stale = (load_run_system(one.folder, judged) for one in results if one.folder is not None)
    gates = [
        gate.run_gate(judged, candidate, baseline, _GATE) for candidate, baseline in ((stale, whole), (whole, stale))
    ]
    return results, gates, checks


@step("sample blind search")
def notice_sample_search(version: Path, texts: Path, folder: Path) -> tuple[dict[str, Any], Path]:
    """Serve a search whose index ends before the newest months, and return what the set would notice of its damages,
    where it is blind, and the page."""
    judged = judged_sets.load_judged_set(version)
    assert judged.images is not None
    newest = set(judged.images.loc[judged.images["taken_at"].fillna("") >= _INDEX_ENDS, "image_id"])
    image_texts = run_formats.read_image_texts(texts, judged.images)
    with system_answers.serve_search(_make_search(judged.images, image_texts, newest)) as url:
        file = _describe(folder / "ended-search.yaml", url)
        return notice_set(NoticeRequest(of=str(version), system=file, to=folder / "notice"))


def _check_services(judged: judged_sets.JudgedSet, folder: Path, album: Path) -> Iterator[CheckReport]:
    """Yield the check of each service by the first captions of the set, written down as the whole one answers."""
    assert judged.queries is not None and judged.images is not None
    right = judged.qrels[judged.qrels["relevance"] > 0].astype({"query_id": "str", "image_id": "str"})
    right = right.merge(judged.queries[["query_id", "text"]]).merge(judged.images[["image_id", "file_name"]])
    rows = right.drop_duplicates("text")[["text", "file_name"]].head(_GOLDEN).itertuples(index=False)
    golden = {"images": os.path.relpath(album, folder), "within": 20, "system": "search.yaml"}
    golden |= {"cases": [{"query": text, "must": [name]} for text, name in rows]}
    write_page(folder / "golden.yaml", yaml.safe_dump(golden, allow_unicode=True, sort_keys=False))
    for name in _SERVICES:
        places = {"system": folder / f"{name}.yaml", "report": folder / f"check-{name}"}
        yield check(folder / "golden.yaml", **places, update=name == "search")


def _make_search(
    images: pd.DataFrame, texts: pd.DataFrame, missing: set[str]
) -> Callable[[str, int], list[tuple[str, float]]]:
    """Return a search that answers with file names."""
    names = images.set_index("image_id")["file_name"]
    index = baselines.LexicalIndex(texts[~texts["image_id"].isin(missing)])
    file_names = names[index.image_ids].tolist()

    def search(text: str, k: int) -> list[tuple[str, float]]:
        ((places, scores),) = index.search([text], k)
        return [(file_names[place], score) for place, score in zip(places.tolist(), scores.tolist(), strict=True)]

    return search


def _remove_result(folder: Path | None) -> None:
    """Remove the result of an earlier demo, whose service had another port and so was another system."""
    if folder is not None:
        with translate_write_errors("remove result", folder):
            shutil.rmtree(folder, ignore_errors=True)


def _describe(file: Path, url: str) -> Path:
    described = {
        "system": "http",
        "url": url,
        "query": {"q": "{query}", "size": "{k}"},
        "results": "hits",
        "id": "file",
        "score": "score",
        "ids": "file_name",
    }
    with translate_write_errors("describe search system", file):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, yaml.safe_dump(described, sort_keys=False).encode())
    return file
