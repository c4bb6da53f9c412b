"""The trainable baseline: an image encoder and a text encoder that meet in one space.

In: a set. Out: a checkpoint that is an embedder like others, scores of the part that it never saw, curves, a report.
After a report on a dual encoder trained on Flickr8k; docs/evaluation.md says where this differs from it.

In reading order: `definition.py`, `training_data.py` (split, pixels, vocabulary, token ids), `augmentation.py`,
`model.py` (towers, heads, unfreezing), `loss.py` (the loss and one step of training), `training.py` (from the last
saved state to the end), `checkpoints.py` (the only one that reads and writes), `retrieval_scores.py`,
`training_report.py`, `embedder.py`. `flows/training.py` runs it.
"""
