"""Worker processes: an item that crashes its decoder affects no other."""
