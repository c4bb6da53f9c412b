"""The trainable baseline: a picture encoder and a text encoder that meet in one space.

After a report on a dual encoder trained on Flickr8k; docs/baselines.md says where this differs from it. Nothing here
opens a file: backends/models/training_checkpoints.py reads and writes, flows/dual_encoder_training.py runs it.
"""
