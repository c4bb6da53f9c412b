"""Proposes the images that a query may fit besides its own: by its phrases, words, caption vectors and image vectors.

Each measure proposes the nearest images of each query, so that the number of pairs grows with the number of queries.
"""

from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from builders.array_types import FloatArray, RowIndices, Vectors
from builders.nearest_neighbours import find_near_pairs, find_nearest_rows
from builders.recall.answer_index import AnswerIndex, MemberIndex
from builders.recall.caption_words import split_words

NEAREST_IMAGES = 40  # that each measure proposes for a query
_CAPTIONS_PER_IMAGE = 2  # captions that are searched for each image that is wanted: several may be of one image
_QUERIES_PER_BLOCK = 512
_MAX_IMAGES_OF_WORD = 5000  # a word of more images proposes none


def propose_by_vectors(answers: AnswerIndex, vectors: Vectors, count: int, threads: int) -> list[RowIndices]:
    """Returns keys of pairs (`pair_keys`): of each query the answers of its nearest captions, and those whose captions
    are nearest on average. `vectors`: centred vectors of the queries."""
    caption, of_answer = answers.caption_answer_pairs()
    left, right = find_nearest_rows(vectors, vectors, count * _CAPTIONS_PER_IMAGE + 1, threads=threads)
    place, pair = MemberIndex(caption, len(answers.query_ids)).members_of(right)
    keys = [answers.pair_keys(left[place], of_answer[pair])]
    members = MemberIndex(of_answer, answers.count)
    described = np.flatnonzero(members.sizes)
    if len(described) < len(caption):
        order, starts = caption[members.members], members.starts[described]
        means = np.add.reduceat(vectors[order], starts, axis=0)
        means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)
        left, right = find_nearest_rows(vectors, means.astype(np.float32), count, threads=threads)
        keys.append(answers.pair_keys(left, described[right]))
    return keys


def propose_by_words(answers: AnswerIndex, count: int) -> RowIndices:
    """Returns keys of pairs: of each query the answers whose captions share its rarest words."""
    lists = [split_words(text) for text in answers.texts]
    place = {word: number for number, word in enumerate(sorted({word for words in lists for word in words}))}
    rows = np.repeat(np.arange(len(lists)), [len(words) for words in lists])
    columns = np.array([place[word] for words in lists for word in words], dtype=np.int64)
    queries = csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(len(lists), len(place)))
    caption, of_answer = answers.caption_answer_pairs()
    membership = csr_matrix((np.ones(len(caption)), (of_answer, caption)), shape=(answers.count, len(lists)))
    images = (membership @ queries).astype(bool).astype(np.float64)
    counts = np.asarray(images.sum(axis=0)).ravel()
    rarity = np.log((answers.count + 1) / (counts + 0.5)).clip(0)
    lengths = np.sqrt(np.asarray(images.multiply(rarity).sum(axis=1)).ravel())
    weighted = images.multiply(np.where(counts > _MAX_IMAGES_OF_WORD, 0, rarity)).tocsr().T.tocsc()
    keys = [np.empty(0, np.int64)]
    for start in range(0, len(lists), _QUERIES_PER_BLOCK):
        scores = (queries[start : start + _QUERIES_PER_BLOCK] @ weighted).tocsr()
        scores.data /= np.maximum(lengths[scores.indices], 1e-9)
        keys.append(_highest(scores, count, start, answers))
    return np.concatenate(keys)


def _highest(scores: Any, count: int, start: int, answers: AnswerIndex) -> RowIndices:
    query = np.repeat(np.arange(scores.shape[0]), np.diff(scores.indptr))
    order = np.lexsort((scores.indices, -scores.data.round(6), query))
    rank = np.arange(len(order)) - np.repeat(scores.indptr[:-1], np.diff(scores.indptr))
    chosen = order[rank < count]
    return answers.pair_keys(start + query[chosen], scores.indices[chosen].astype(np.int64))


def propose_by_near_captions(answers: AnswerIndex, vectors: Vectors, min_cosine: float, count: int) -> RowIndices:
    """Returns keys of pairs: of each query the answers of captions of at least this cosine, the nearest `count`."""
    caption, of_answer = answers.caption_answer_pairs()
    most = count * int(np.bincount(of_answer, minlength=1).max())
    left, right = find_near_pairs(vectors, vectors, np.full(len(vectors), min_cosine), most)
    place, pair = MemberIndex(caption, len(answers.query_ids)).members_of(right)
    return answers.pair_keys(left[place], of_answer[pair])


def propose_by_images(answers: AnswerIndex, images: Vectors, min_cosine: float, count: int) -> RowIndices:
    """Returns keys of pairs: of each query the answers whose images are near its own, the nearest `count`."""
    most = count * int(np.bincount(answers.answer, minlength=1).max())
    left, right = find_near_pairs(images, images, np.full(len(images), min_cosine), most)
    place, pair = MemberIndex(answers.relevant_image, len(answers.image_ids)).members_of(left)
    return answers.pair_keys(answers.relevant_query[pair], answers.answer[right[place]])


def propose_by_queries(
    answers: AnswerIndex, queries: Vectors, images: Vectors, min_cosines: FloatArray, count: int
) -> RowIndices:
    """Returns keys of pairs: of each query the answers whose images have at least its cosine (n,) with the query."""
    most = count * int(np.bincount(answers.answer, minlength=1).max())
    left, right = find_near_pairs(queries, images, min_cosines, most)
    return answers.pair_keys(left, answers.answer[right])
