"""Embedders: what turns pictures and texts into vectors of one length, near where they show or say alike.

One file each, with `load(name, …)` that gives an object with `encode_images`, `encode_texts`, `dimensions` (the
vectors' length) and `fingerprint` (which weights: part of every cache key, and in the manifest). Rows come in the
order of what was given, float32, of length one, so that a product of two is their cosine. Near-duplicates of a
gallery are found by pictures' vectors; ambiguous captions and evaluation compare texts with pictures.
"""
