"""Watermarks: an overlay that several images of a collection share, at one corner or in the middle.

One image alone does not tell a mark from what it shows; many do. Edges of each image, weak and strong ones alike, are
compared at the four corners and in the middle. Two photos have none in common there; two with one mark have those of
the mark. From such pairs a mean of edges is formed, which grows clearer with every image that joins; an image belongs
to it by its correlation with the mean of the others (the idea of finding a mark by its edges in many images is that of
Dekel et al., "On the effectiveness of visible watermarks", 2017).
"""

import io
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

SIDE = 512  # pixels of an image's longer side, in which marks that grow with the image are alike
_CROP = 160
_ANCHORS = ((0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0), (0.5, 0.5))  # of the crops: down, across
_NOISE = 4.0  # grey levels of an edge that compression makes
_SEED = 0.07  # correlation of two images from which they begin a mark
_SAME = 0.2  # correlation at three of the places: one image and its copy, not two with a mark
_TRIES = 12  # marks at a place
_ROUNDS = 5  # of joining and leaving
PART = 1000  # images that are compared with each other: half a gigabyte
Edges = NDArray[np.float16]
Vectors = NDArray[np.float32]


def read_edges(jpeg: bytes) -> Edges:
    """Returns the edges at each place, (places, 2 x pixels), of an image whose longer side has SIDE pixels."""
    with Image.open(io.BytesIO(jpeg), formats=("JPEG",)) as image:
        grey = np.asarray(image.convert("L"), dtype=np.float32)
    return np.stack([_find_edges(_crop(grey, *anchor)) for anchor in _ANCHORS]).astype(np.float16)


def _crop(grey: Vectors, down: float, across: float) -> Vectors:
    """Returns the crop at an anchor; beside a narrow image it is as bright as its mean."""
    high, wide = grey.shape
    top, left = max(0, round(down * (high - _CROP))), max(0, round(across * (wide - _CROP)))
    part = grey[top : top + _CROP, left : left + _CROP]
    if part.shape == (_CROP, _CROP):
        return part
    whole = np.full((_CROP, _CROP), part.mean(), dtype=np.float32)
    top, left = round(down * (_CROP - part.shape[0])), round(across * (_CROP - part.shape[1]))
    whole[top : top + part.shape[0], left : left + part.shape[1]] = part
    return whole


def _find_edges(grey: Vectors) -> Vectors:
    """Returns the slopes, across and down, each between -1 and 1: a strong edge counts little more than a weak one."""
    across, down = np.diff(grey, axis=1)[:-1], np.diff(grey, axis=0)[:, :-1]
    strength = np.hypot(across, down)
    scale = strength + _NOISE + 0.5 * strength.mean()
    inner = np.s_[:, 3:-3, 3:-3]  # without the frame of the image
    edges: Vectors = np.stack([across / scale, down / scale])[inner].reshape(-1)
    return edges


def find_marked_images(edges: Sequence[Edges], at_least: float, images: int) -> NDArray[np.float64]:
    """Returns per image its correlation with the mark that it shares with others, NaN where it shares none: at least
    `at_least`, of at least so many `images`."""
    found = np.full(len(edges), np.nan)
    if len(edges) < images:
        return found
    alike = []
    for place in range(len(_ANCHORS)):
        vectors = _compare([one[place] for one in edges])
        alike.append(vectors @ vectors.T)
    is_copy = np.sort(np.stack(alike), axis=0)[-3] > _SAME
    for place, correlation in enumerate(alike):
        vectors, pairs = _compare([one[place] for one in edges]), np.where(is_copy, -1.0, correlation)
        for members, scores in _find_marks(vectors, pairs, at_least):
            if len(members) >= images:
                found[members] = np.fmax(found[members], scores[members])
    return found


def _compare(edges: Sequence[Edges]) -> Vectors:
    """Returns vectors whose products are correlations; those of an image with hardly an edge are short."""
    vectors = np.stack(edges).astype(np.float32)
    vectors -= vectors.mean(axis=0)  # what all images have, such as a sky above
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: Vectors = vectors / np.maximum(length + 0.25 * np.median(length), 1e-9)
    return scaled


def _find_marks(
    vectors: Vectors, pairs: NDArray[np.float64], at_least: float
) -> list[tuple[NDArray[np.intp], NDArray[np.float64]]]:
    """Returns the members and the scores of each mark at a place, those with the most like images first."""
    left, marks = np.ones(len(vectors), dtype=bool), []
    own = np.einsum("ij,ij->i", vectors, vectors)
    for _ in range(_TRIES):
        open_pairs = np.where(left[None, :] & left[:, None], pairs, -1.0)
        like = (open_pairs > _SEED).sum(axis=1)
        if like.max() < 2:  # an image and two others
            break
        seed = int(np.argmax(np.sort(open_pairs, axis=1)[:, -2] + (like >= 2)))
        members = np.append(np.flatnonzero(open_pairs[seed] > _SEED), seed)
        scores = np.zeros(len(vectors))
        for _ in range(_ROUNDS):
            scores = _score(vectors, members, own)
            joined = np.flatnonzero((scores > at_least) & left)
            if set(joined) == set(members) or not len(joined):
                break
            members = joined
        kept = members[scores[members] > at_least]
        marks.append((kept, scores))
        left[kept], left[seed] = False, False
    return marks


def _score(vectors: Vectors, members: NDArray[np.intp], own: Vectors) -> NDArray[np.float64]:
    """Returns the correlation of each image with the mean of the members without itself."""
    is_member = np.zeros(len(vectors))
    is_member[members] = 1
    total = vectors[members].sum(axis=0)
    product = vectors @ total
    length = np.sqrt(np.maximum(total @ total - is_member * (2 * product - own), 1e-9))
    scores: NDArray[np.float64] = (product - is_member * own) / length
    return scores
