"""Families of queries that boxes answer beyond labels: numbers, sizes, places, absence and attributes.

In: the boxes of each label, image by image. Out: questions, and images that are right, explicit negatives or unknown.

In reading order: `box_evidence.py` (what boxes say, and what a family is), `count.py`, `size.py`, `spatial.py`,
`negation.py`, `attribute.py`,
`people.py` (a family each; people by facts of files), `family_queries.py` (all questions that have enough images).
"""
