"""Annotation files and label tables."""
