"""Definitions: the YAML files that describe builds, as models."""

from flows.definitions.audit import AuditDefinition
from flows.definitions.common import NearDuplicateOptions, RenderOptions, SetDefinition
from flows.definitions.gallery import GalleryDefinition
from flows.definitions.generated import GeneratedDefinition
from flows.definitions.imported import ImportDefinition
from flows.definitions.loader import DEFINITION_CLASSES, load_audit_definition, load_definition, parse_definition
from flows.definitions.precision import PrecisionDefinition
from flows.definitions.recall import RecallDefinition
from flows.definitions.training import TrainingDefinition

__all__ = [
    "DEFINITION_CLASSES",
    "AuditDefinition",
    "GalleryDefinition",
    "GeneratedDefinition",
    "ImportDefinition",
    "NearDuplicateOptions",
    "PrecisionDefinition",
    "RecallDefinition",
    "RenderOptions",
    "SetDefinition",
    "TrainingDefinition",
    "load_audit_definition",
    "load_definition",
    "parse_definition",
]
