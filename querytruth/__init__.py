"""Benchmarks for text-to-image search: `import querytruth as qt`, then `qt.load("name/v2")`. See docs/python.md.

The import takes no time: each name is loaded when it is first used. The other files are the command line.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from builders.gallery.definition import GalleryDefinition as Gallery
    from builders.generated.definition import GeneratedDefinition as Generated
    from builders.precision.definition import PrecisionDefinition as Precision
    from builders.recall.definition import RecallDefinition as Recall
    from querytruth.api.comparisons import (
        Comparison,
        SystemBoard,
        compare,
        gate,
        history,
        leaderboard,
        plan_size,
        stability,
    )
    from querytruth.api.evaluations import Evaluation, evaluate, search
    from querytruth.api.loaded_set import LoadedSet, QueryView, load
    from querytruth.api.set_builds import (
        SetBuild,
        apply,
        build,
        collect,
        export,
        import_set,
        objects,
        plan,
        topics,
        train,
    )
    from querytruth.api.set_checks import SetDifference, diff, fetch, lint, publish, rebuild, verify
    from querytruth.api.set_trust import (
        audit_plan,
        audit_report,
        audit_start,
        calibrate,
        doctor,
        export_review,
        overlap,
        refresh_replies,
        shortcuts,
    )
    from querytruth.audit.definition import AuditDefinition as Audit
    from querytruth.dual_encoder.definition import TrainingDefinition as Training
    from querytruth.errors import UserError

_MODULES = {
    "querytruth.errors": ["UserError"],
    "querytruth.api.comparisons": [
        *("Comparison", "SystemBoard", "compare", "gate", "history", "leaderboard", "plan_size", "stability"),
    ],
    "querytruth.api.evaluations": ["Evaluation", "evaluate", "search"],
    "querytruth.api.loaded_set": ["LoadedSet", "QueryView", "load"],
    "querytruth.api.set_builds": [
        *("SetBuild", "apply", "build", "collect", "export", "import_set", "objects", "plan", "topics", "train"),
    ],
    "querytruth.api.set_checks": ["SetDifference", "diff", "fetch", "lint", "publish", "rebuild", "verify"],
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
_DEFINITIONS = ("Audit", "Gallery", "Generated", "Precision", "Recall", "Training")  # classes, by their short names
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
        value = getattr(import_module("flows.definition_loader"), f"{name}Definition")
    elif module := next((module for module, names in _MODULES.items() if name in names), None):
        value = getattr(import_module(module), name)
    else:
        raise AttributeError(f"module 'querytruth' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
