"""Reference systems for comparison: random (lowest), oracle (highest), lexical, and a trainable dual encoder."""
