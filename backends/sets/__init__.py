"""Published sets on disk, the decisions made on them, and their review sheets."""
