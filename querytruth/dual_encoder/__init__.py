"""The trainable baseline: an image encoder and a text encoder with one vector space.

In: a set. Out: a checkpoint that works like any embedder, scores of the held-out part, curves, a report.
It follows a report on a dual encoder trained on Flickr8k; docs/evaluation.md lists the differences.

In reading order: `definition.py`, `training_data.py` (split, pixels, vocabulary, token ids), `augmentation.py`,
`model.py` (towers, heads, unfreezing), `loss.py` (the loss and one step of training), `training.py` (from the last
saved state to the end), `checkpoints.py` (the only module that reads and writes), `retrieval_scores.py`,
`training_report.py`, `embedder.py`. `flows/training.py` runs it.
"""
