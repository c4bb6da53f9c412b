"""How well systems find the images of a set, and how certain that is.

In: a set, and systems: run files, models, vectors, baselines, live services, programs. Out: results with intervals.

`requests.py` states what an evaluation takes. In reading order: `judged_sets.py` (the truth of one direction),
`systems.py`, `encoded_sets.py`, `live_systems.py`, `file_checksums.py` (images by SHA-1), `system_answers.py`,
`program_systems.py`, `baselines.py` (each gives a run), `run_files.py` and `run_formats.py`, `published_names.py`
(ids of others), `run_matching.py`,
`ranking.py` (order, ties and cuts are decided here alone), `ground_truth.py`, `metrics.py` (a function each),
`metric_scores.py`, `bounds.py`, `statistics.py`, `open_set.py`, `traffic.py`, `run_evaluation.py` (all of it for one
run), `result_types.py`, `evaluation_result.py`, `result_files.py`; beside each other:
`query_changes.py` (the same questions in other typing),
`comparison.py`, `system_differences.py`, `leaderboard.py`, `release_gate.py`, `sample_size.py`.
`vector_search.py` searches vectors, exactly or by an index.
`steps.py` does what `flows/evaluation.py` tells.
"""
