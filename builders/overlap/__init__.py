"""Pairs of items that two collections share: near images and equal or overlapping texts."""
