"""The steps of each build, described once; run in process, or as Prefect flows."""
