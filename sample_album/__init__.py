"""A photo album drawn by code: a gallery whose every truth is known, small enough to begin with."""

from sample_album.album import draw_album
from sample_album.album_records import AlbumImage, CaptionClaims, CaptionRequirement, ObjectBox
from sample_album.annotations import (
    build_captions_table,
    build_coco_annotations,
    build_descriptions_table,
    build_fitting_table,
)
from sample_album.caption_evaluation import CaptionEvaluation, evaluate_captions
from sample_album.caption_truth import SHARED_CAPTIONS_PER_BLOCK, find_fitting_scenes, is_true_of

__all__ = [
    "SHARED_CAPTIONS_PER_BLOCK",
    "AlbumImage",
    "CaptionClaims",
    "CaptionEvaluation",
    "CaptionRequirement",
    "ObjectBox",
    "build_captions_table",
    "build_coco_annotations",
    "build_descriptions_table",
    "build_fitting_table",
    "draw_album",
    "evaluate_captions",
    "find_fitting_scenes",
    "is_true_of",
]
