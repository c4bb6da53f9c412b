"""The systems of an evaluation by the files, names and services that they come from."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from backends.search_systems import load_system_file
from builders.errors import UserError
from evaluation.evaluation_result import TEXT_TO_IMAGE
from flows.evaluation_run import EvaluationOptions, StoredResult, evaluate_systems
from flows.scoring import live_systems, systems
from flows.scoring.encoded_sets import encode_set, read_encoded_set
from flows.scoring.judged_sets import JudgedSet
from flows.scoring.live_systems import AskOptions
from flows.scoring.systems import EvaluatedSystem


@dataclass(frozen=True, slots=True)
class SystemSources:
    """The systems of an evaluation: run files, baselines, folders of vectors, models by name or folder, and
    one matrix with its row and column ids. `index`: exact, ivf or hnsw; `texts`: of the lexical baseline. `systems`:
    files that describe search services, which are asked as `ask` states; `ids`: the column that run files name images
    by; `scores`: what the numbers of runs and of the matrix are, one of systems.SCORES, None: the highest is the best,
    unless ranks say otherwise. A folder of runs is each of them."""

    runs: Sequence[str | Path] = ()
    baselines: Sequence[str] = ()
    vectors: Sequence[str | Path] = ()
    models: Sequence[str] = ()
    similarities: tuple[Path, Path, Path] | None = None
    index: str = "exact"
    seed: int = 0
    texts: Path | None = None
    systems: Sequence[str | Path] = ()
    ask: AskOptions = field(default_factory=AskOptions)
    ids: str = "image_id"
    scores: str | None = None

    def load_systems(self, judged: JudgedSet) -> list[EvaluatedSystem]:
        """Return the systems in this order. Raises UserError for one that cannot be read."""
        runs = [one for run in self.runs for one in systems.list_runs(Path(run))]
        found = [systems.load_run_system(run, judged, self.scores) for run in runs]
        if self.ids != "image_id":
            found = [systems.name_images(one, judged, self.ids) for one in found]
        found += [systems.make_baseline(name, self.seed, self.texts) for name in self.baselines]
        found += [systems.load_similarity_system(*self.similarities, self.scores)] if self.similarities else []
        found += [live_systems.make_live_system(load_system_file(Path(one)), judged, self.ask) for one in self.systems]
        encoded = [read_encoded_set(Path(folder), judged) for folder in self.vectors]
        encoded += [encode_set(name, judged) for name in self.models]
        return found + [systems.make_vector_system(one, self.index) for one in encoded]


def evaluate_sources(
    judged: JudgedSet,
    sources: SystemSources,
    options: EvaluationOptions,
    directions: Sequence[str] = (TEXT_TO_IMAGE,),
    name: str | None = None,
) -> list[StoredResult]:
    """Evaluate every system in every direction; `name` is that of a single system. Raises UserError."""
    systems.check_index(sources.index)
    evaluated = sources.load_systems(judged)
    if name is not None:
        if len(evaluated) > 1:
            reason = f"is one name for {len(evaluated)} systems"
            raise UserError("evaluate", name, reason, "evaluate them one by one, or leave --name out")
        evaluated = [systems.rename_system(one, name) for one in evaluated]
    return list(evaluate_systems(judged, evaluated, directions, options))
