"""Builds under Prefect: parameters, tasks, runners, progress, artifacts, and reviews that a run waits for."""
