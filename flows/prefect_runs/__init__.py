"""Builds under Prefect: tasks, runners, progress, artifacts, and reviews that a run waits for."""
