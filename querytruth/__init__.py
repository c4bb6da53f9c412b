"""Benchmarks for text-to-image search: `import querytruth as qt`, then `qt.load("name/v2")`. See docs/python.md.

The import takes no time: each name is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from builders.gallery.definition import GalleryDefinition as Gallery
    from builders.generated.definition import GeneratedDefinition as Generated
    from builders.precision.definition import PrecisionDefinition as Precision
    from builders.queries.definition import QueriesDefinition as Queries
    from builders.recall.definition import RecallDefinition as Recall
    from flows.check import check
    from flows.door import open
    from querytruth.api.comparisons import compare, gate, plan_size
    from querytruth.api.evaluations import evaluate
    from querytruth.api.loaded_set import fetch, load, verify
    from querytruth.api.set_builds import build, doctor, generate, import_set, plan, refresh_replies, train
    from querytruth.api.set_trust import notice, open_audit
    from querytruth.audit.definition import AuditDefinition as Audit
    from querytruth.dual_encoder.definition import TrainingDefinition as Training
    from querytruth.errors import UserError

_MODULES = {
    "querytruth.errors": ["UserError"],
    "flows.check": ["check"],
    "flows.door": ["open"],
    "querytruth.api.comparisons": ["compare", "gate", "plan_size"],
    "querytruth.api.evaluations": ["evaluate"],
    "querytruth.api.loaded_set": ["fetch", "load", "verify"],
    "querytruth.api.set_trust": ["notice", "open_audit"],
    "querytruth.api.set_builds": ["build", "doctor", "generate", "import_set", "plan", "refresh_replies", "train"],
}
__all__ = [
    "Audit",
    "Gallery",
    "Generated",
    "Precision",
    "Queries",
    "Recall",
    "Training",
    "UserError",
    "build",
    "check",
    "compare",
    "doctor",
    "evaluate",
    "fetch",
    "gate",
    "generate",
    "import_set",
    "load",
    "notice",
    "open",
    "open_audit",
    "plan",
    "plan_size",
    "refresh_replies",
    "train",
    "verify",
]


def __getattr__(name: str) -> Any:
    if module := next((module for module, names in _MODULES.items() if name in names), None):
        value = getattr(import_module(module), name)
    elif name in __all__:  # the class of a definition, by its short name
        value = getattr(import_module("flows.definition_loader"), f"{name}Definition")
    else:
        raise AttributeError(f"module 'querytruth' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
