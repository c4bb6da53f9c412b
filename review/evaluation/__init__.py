"""The pages of an evaluation and of a comparison of two systems."""
