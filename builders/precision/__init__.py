"""Precision sets: detection labels to queries that many pictures answer."""
