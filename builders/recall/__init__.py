"""Recall sets: each query is the caption of one image."""
