"""How a system's results on a set's judgments become a run: models, vectors, files and baselines."""
