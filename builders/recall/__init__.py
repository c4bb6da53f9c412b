"""Recall sets: one caption, one picture."""
