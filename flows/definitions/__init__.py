"""Definitions: what a person writes down to have a set built."""

from flows.definitions.gallery import GalleryDefinition
from flows.definitions.generated import GeneratedDefinition
from flows.definitions.imported import ImportDefinition
from flows.definitions.parts import NearDuplicates, Render, SetDefinition
from flows.definitions.precision import PrecisionDefinition
from flows.definitions.reading import KINDS, check_definition, load_definition
from flows.definitions.recall import RecallDefinition
from flows.definitions.training import TrainingDefinition

__all__ = [
    "KINDS",
    "GalleryDefinition",
    "GeneratedDefinition",
    "ImportDefinition",
    "NearDuplicates",
    "PrecisionDefinition",
    "RecallDefinition",
    "Render",
    "SetDefinition",
    "TrainingDefinition",
    "check_definition",
    "load_definition",
]
