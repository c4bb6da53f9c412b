"""The page of a set, by its kind."""
