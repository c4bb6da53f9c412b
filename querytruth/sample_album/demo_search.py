"""Two search services of the sample album on loopback, one of which lacks a part of the images: evaluated as live
systems, gated against each other, and put on the leaderboard.
"""

import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pandas as pd
import yaml

from flows import evaluation, gate, leaderboard
from querytruth.backends.files.durable_files import write_atomically
from querytruth.backends.search_systems import load_system_file
from querytruth.backends.steps import step
from querytruth.errors import translate_write_errors
from querytruth.evaluation import (
    baselines,
    evaluation_result,
    judged_sets,
    live_systems,
    release_gate,
    run_formats,
    system_answers,
)
from querytruth.evaluation.requests import EvaluationOptions
from querytruth.evaluation.steps import StoredResult, find_result_folder
from querytruth.evaluation.systems import load_run_system

_SERVICES = {"search": 1, "stale-search": 5}  # by name: every n-th image is missing from the index; 1: none is
_GATE = release_gate.GateSpec({"ndcg@10": 0.02})


@step("sample search services")
def evaluate_sample_search(
    version: Path, texts: Path, folder: Path
) -> tuple[list[StoredResult], list[release_gate.GateReport], Path]:
    """Serves the album's search by `texts`, the CSV with texts of the images, and evaluates it on the version of a set.
    Writes the files that describe the services and leaderboard.html into `folder`. Returns the results of the whole and
    of the stale service; the gates of the stale one against the whole one, and the other way round; and the page of the
    leaderboard."""
    judged = judged_sets.load_judged_set(version)
    assert judged.images is not None
    image_texts = run_formats.read_image_texts(texts, judged.images)
    with ExitStack() as services:
        systems = []
        for name, period in _SERVICES.items():
            url = services.enter_context(system_answers.serve_search(_make_search(judged.images, image_texts, period)))
            file = _describe(folder / f"{name}.yaml", url)
            systems.append(
                live_systems.make_live_system(
                    load_system_file(file), judged, live_systems.AskOptions(is_refreshed=True)
                )
            )
            _remove_result(find_result_folder(judged, systems[-1], evaluation_result.TEXT_TO_IMAGE))
        results = list(
            evaluation.evaluate_systems(
                judged, systems, (evaluation_result.TEXT_TO_IMAGE,), EvaluationOptions(page=False)
            )
        )
    whole, stale = (load_run_system(one.folder, judged) for one in results if one.folder is not None)
    gates = [
        gate.run_gate(judged, candidate, baseline, _GATE) for candidate, baseline in ((stale, whole), (whole, stale))
    ]
    board = folder / "leaderboard.html"
    leaderboard.write_leaderboard(leaderboard.build_leaderboard(version), board)
    return results, gates, board


def _make_search(
    images: pd.DataFrame, texts: pd.DataFrame, period: int
) -> Callable[[str, int], list[tuple[str, float]]]:
    """A search that answers with file names."""
    names = images.set_index("image_id")["file_name"]
    missing = set(names.index.sort_values()[::period]) if period > 1 else set()
    index = baselines.LexicalIndex(texts[~texts["image_id"].isin(missing)])
    file_names = names[index.image_ids].tolist()

    def search(text: str, k: int) -> list[tuple[str, float]]:
        ((places, scores),) = index.search([text], k)
        return [(file_names[place], score) for place, score in zip(places.tolist(), scores.tolist(), strict=True)]

    return search


def _remove_result(folder: Path | None) -> None:
    """Removes the result of an earlier demo, whose service had another port and so was another system."""
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
