"""Answers of search systems: asked within limits, recorded, and mapped to a set's images."""
