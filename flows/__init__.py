"""What runs when: one chain of steps per file, to be read like the method section of a paper.

The sets: `gallery_set.py`, `recall_set.py`, `precision_set.py`, `generated_set.py`, `queries_set.py`, `import_set.py`.
On sets: `evaluation.py`, `gate.py`, `audit.py` (which waits for people), `leaderboard.py`, `search.py`, `size_plan.py`,
`check.py` (golden queries), `training.py`, `rebuild.py`, `review_targets.py` (what can be reviewed),
`review_site.py` (the views of the review page), `door.py` (a folder, its first search and its page), `door_site.py`
(the addresses of that page).

Around them: `requests.py` (the requests of builds), `definition_loader.py` (YAML to a definition),
`definition_checks.py` (before models are asked or data is read), `set_kind.py` and `set_kinds.py` (how a kind is built,
planned and shown), `flow_entrypoint.py`, `prefect_engine.py`. `prefect_runs/`: the same chains as Prefect flows, with
artifacts and reviews that a run waits for.
"""
