"""Stored vectors of images and texts, and stored pixels."""
