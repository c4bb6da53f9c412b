"""The reports of an evaluation and of two systems side by side."""
