"""The flows as prefect.yaml deploys them: they leave pages, too, which only this room can write."""

from __future__ import annotations

from flows.prefect_runs.build_flows import gallery_set, precision_set, recall_set
from flows.prefect_runs.evaluate_flow import evaluate
from flows.prefect_runs.generated_flows import collect, generated_set, objects, topics
from flows.prefect_runs.page_artifacts import PageWriters, set_page_writers
from querytruth.result_pages import write_evaluation_page
from querytruth.set_pages import write_set_page

__all__ = ["collect", "evaluate", "gallery_set", "generated_set", "objects", "precision_set", "recall_set", "topics"]

set_page_writers(PageWriters(write_set_page, write_evaluation_page))
