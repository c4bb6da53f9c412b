"""Families of queries that boxes answer beyond labels: numbers, sizes, places and absence."""
