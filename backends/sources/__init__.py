"""Where pictures come from, and what was found out about each of them."""
