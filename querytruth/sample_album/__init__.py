"""The sample album: 240 drawn scenes, near-duplicates and faulty files, with everything that is true of them.

In come the files of data/ (data/README.md says how they were made), each checked against data/sha256.txt. Out go the
images with their facts, the tables and annotations that the demo builds its sets of, and scores of such sets against
the album's truth. In reading order: album.py reads the data; set_evaluation.py asks of a recall set whether its
queries have just the images that their captions fit, and of a generated set whether its judged images show what their
queries name. The demo: album_files.py writes the album and answers in place of a model, demo_search.py runs two search
services on the album, scripted_person.py judges a search log and certifies a set whose truth is known.
stand_in_servers.py: a caption endpoint and a search for the walk of docs/first-hour.md.
"""

from querytruth.sample_album.album import (
    AlbumImage,
    CaptionClaims,
    CaptionRequirement,
    read_album,
    read_annotations,
    read_table,
    read_words,
)
from querytruth.sample_album.set_evaluation import (
    CaptionEvaluation,
    QueryEvaluation,
    evaluate_captions,
    evaluate_queries,
    find_fitting_images,
    parse_requirement,
)

__all__ = [
    "AlbumImage",
    "CaptionClaims",
    "CaptionEvaluation",
    "CaptionRequirement",
    "QueryEvaluation",
    "evaluate_captions",
    "evaluate_queries",
    "find_fitting_images",
    "parse_requirement",
    "read_album",
    "read_annotations",
    "read_table",
    "read_words",
]
