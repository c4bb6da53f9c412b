"""Defaults that several rooms share, so that each is defined once."""

from pathlib import Path

DATASETS_FOLDER = Path("datasets")  # where published sets lie, below the working directory
