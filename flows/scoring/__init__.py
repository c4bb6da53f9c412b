"""How a system becomes a run: models, vectors, files and baselines on a set's judgments."""
