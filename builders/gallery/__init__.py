"""The gallery: a pile of images, filtered, freed of duplicates, selected and rendered.

In: a folder, a list or a table of images. Out: the images table, duplicate groups, and a row for every image left out.

In reading order: `definition.py`, `steps.py` (list, filter, duplicates, select, render), `image_scan.py`,
`image_filters.py` with `filters/` (a rule each), `near_duplicates.py` (groups and representatives) upon
`duplicate_groups.py`, `duplicate_overrides.py` (what people
decided); `source_sets.py` (the published sets that a definition reads), `selection.py`, `render_steps.py`, `page.py`.
"""
