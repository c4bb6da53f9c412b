"""Precision sets: each query is a label or a mix of labels with many relevant images."""
