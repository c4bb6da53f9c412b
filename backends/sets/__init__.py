"""Published sets on disk, their decision logs and their review tables."""
