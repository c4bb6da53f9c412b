"""A photo album drawn by code: a gallery whose every truth is known, small enough to begin with."""

from __future__ import annotations

from builders.sample_album.album import draw_album
from builders.sample_album.annotations import captions_table, coco_annotations
from builders.sample_album.caption_truth import SHARED, fitting_scenes, satisfies
from builders.sample_album.records import AlbumPicture, Box, Claims, Requirement

__all__ = [
    "SHARED",
    "AlbumPicture",
    "Box",
    "Claims",
    "Requirement",
    "captions_table",
    "coco_annotations",
    "draw_album",
    "fitting_scenes",
    "satisfies",
]
