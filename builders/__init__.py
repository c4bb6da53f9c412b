"""The builders of sets: `gallery/`, `recall/`, `precision/` with `album/` (facts of files), `generated/`, `queries/`,
and `imported_set.py`.

In: a definition, what people decided before. Out: the tables of a set, its ledger and its page.

Each room has its definition, its steps (which alone touch files and models), its rules (pure, from tables to tables)
and its page. `flows/` tells in which order the steps run. What all of them share: `judged_pairs.py` (what a judge
decides of proposed pairs), `publication.py` (decisions applied, checked, published), `publication_guards.py` (no build
loses much without being asked), `lint.py` (checks of a published set), `set_page.py`.
"""
