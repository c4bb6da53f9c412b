"""Benchmarks for text-to-image search: `import querytruth as qt`, then `qt.load("name/v2")`. See docs/python.md.

The import takes no time: each name is loaded when it is first used. The other files are the command line.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from builders.errors import UserError as UserError
    from flows.definitions import AuditDefinition as Audit
    from flows.definitions import GalleryDefinition as Gallery
    from flows.definitions import GeneratedDefinition as Generated
    from flows.definitions import PrecisionDefinition as Precision
    from flows.definitions import RecallDefinition as Recall
    from flows.definitions import TrainingDefinition as Training
    from querytruth.api.comparisons import Comparison as Comparison
    from querytruth.api.comparisons import compare as compare
    from querytruth.api.evaluations import Evaluation as Evaluation
    from querytruth.api.evaluations import evaluate as evaluate
    from querytruth.api.gates import gate as gate
    from querytruth.api.gates import plan_size as plan_size
    from querytruth.api.generated_stages import collect as collect
    from querytruth.api.generated_stages import objects as objects
    from querytruth.api.generated_stages import topics as topics
    from querytruth.api.generated_stages import train as train
    from querytruth.api.leaderboards import SystemBoard as SystemBoard
    from querytruth.api.leaderboards import history as history
    from querytruth.api.leaderboards import leaderboard as leaderboard
    from querytruth.api.leaderboards import stability as stability
    from querytruth.api.loaded_set import LoadedSet as LoadedSet
    from querytruth.api.loaded_set import QueryView as QueryView
    from querytruth.api.loaded_set import load as load
    from querytruth.api.searches import search as search
    from querytruth.api.set_builds import SetBuild as SetBuild
    from querytruth.api.set_builds import apply as apply
    from querytruth.api.set_builds import build as build
    from querytruth.api.set_builds import export as export
    from querytruth.api.set_builds import import_set as import_set
    from querytruth.api.set_builds import plan as plan
    from querytruth.api.set_checks import SetDifference as SetDifference
    from querytruth.api.set_checks import diff as diff
    from querytruth.api.set_checks import lint as lint
    from querytruth.api.set_checks import rebuild as rebuild
    from querytruth.api.set_checks import verify as verify
    from querytruth.api.set_storage import fetch as fetch
    from querytruth.api.set_storage import publish as publish
    from querytruth.api.set_trust import audit_plan as audit_plan
    from querytruth.api.set_trust import audit_report as audit_report
    from querytruth.api.set_trust import audit_start as audit_start
    from querytruth.api.set_trust import calibrate as calibrate
    from querytruth.api.set_trust import doctor as doctor
    from querytruth.api.set_trust import export_review as export_review
    from querytruth.api.set_trust import overlap as overlap
    from querytruth.api.set_trust import refresh_replies as refresh_replies
    from querytruth.api.set_trust import shortcuts as shortcuts

_MODULES = {
    "builders.errors": ["UserError"],
    "querytruth.api.comparisons": ["Comparison", "compare"],
    "querytruth.api.evaluations": ["Evaluation", "evaluate"],
    "querytruth.api.gates": ["gate", "plan_size"],
    "querytruth.api.generated_stages": ["collect", "objects", "topics", "train"],
    "querytruth.api.leaderboards": ["SystemBoard", "history", "leaderboard", "stability"],
    "querytruth.api.loaded_set": ["LoadedSet", "QueryView", "load"],
    "querytruth.api.searches": ["search"],
    "querytruth.api.set_builds": ["SetBuild", "apply", "build", "export", "import_set", "plan"],
    "querytruth.api.set_checks": ["SetDifference", "diff", "lint", "rebuild", "verify"],
    "querytruth.api.set_storage": ["fetch", "publish"],
    "querytruth.api.set_trust": [
        "audit_plan",
        "audit_report",
        "audit_start",
        "calibrate",
        "doctor",
        "export_review",
        "overlap",
        "refresh_replies",
        "shortcuts",
    ],
}
_DEFINITIONS = (
    "Audit",
    "Gallery",
    "Generated",
    "Precision",
    "Recall",
    "Training",
)  # classes of flows.definitions, by their short names
__all__ = [
    "Audit",
    "Comparison",
    "Evaluation",
    "Gallery",
    "Generated",
    "LoadedSet",
    "Precision",
    "QueryView",
    "Recall",
    "SetBuild",
    "SetDifference",
    "SystemBoard",
    "Training",
    "UserError",
    "apply",
    "audit_plan",
    "audit_report",
    "audit_start",
    "build",
    "calibrate",
    "collect",
    "compare",
    "diff",
    "doctor",
    "evaluate",
    "export",
    "export_review",
    "fetch",
    "gate",
    "history",
    "import_set",
    "leaderboard",
    "lint",
    "load",
    "objects",
    "overlap",
    "plan",
    "plan_size",
    "publish",
    "rebuild",
    "refresh_replies",
    "search",
    "shortcuts",
    "stability",
    "topics",
    "train",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name in _DEFINITIONS:
        value = getattr(import_module("flows.definitions"), f"{name}Definition")
    elif module := next((module for module, names in _MODULES.items() if name in names), None):
        value = getattr(import_module(module), name)
    else:
        raise AttributeError(f"module 'querytruth' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
