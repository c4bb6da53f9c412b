"""Worker processes: an item that crashes its decoder costs that item alone."""
