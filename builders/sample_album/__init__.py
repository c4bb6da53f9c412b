"""A photo album drawn by code: a gallery whose every truth is known, small enough to begin with."""

from __future__ import annotations

from builders.sample_album.album import draw_album
from builders.sample_album.annotations import captions_table, coco_annotations, descriptions_table, fitting_table
from builders.sample_album.caption_check import CaptionCheck, check_captions
from builders.sample_album.caption_truth import SHARED, fitting_scenes, satisfies
from builders.sample_album.records import AlbumPicture, Box, Claims, Requirement

__all__ = [
    "SHARED",
    "AlbumPicture",
    "Box",
    "CaptionCheck",
    "Claims",
    "Requirement",
    "captions_table",
    "check_captions",
    "coco_annotations",
    "descriptions_table",
    "draw_album",
    "fitting_scenes",
    "fitting_table",
    "satisfies",
]
