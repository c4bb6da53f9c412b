"""The chains of `flows/` under Prefect: deployments with progress, artifacts, and reviews that a run waits for.

In: the parameters of a deployment. Out: a final state (Published, Unchanged, Failed …) and artifacts.

In reading order: `build_flows.py` (each kind of set, and the stages of generated ones), `build_run.py` (steps are
tasks), `flow_runner.py` (run, suspend, resume), `artifacts.py`; the other flows: `evaluate_flow.py`, `gate_flow.py`,
`train_flow.py`, `import_flow.py`, `apply_flow.py`; from a shell: `plugin.py` (`prefect run` and `resume`),
`one_off_run.py`, `resume_run.py`.
"""
