"""The builders of sets: `gallery/`, `recall/`, `precision/` with `album/` (facts of files), `generated/`, `queries/`,
and `imported_set.py`.

Input: a definition and earlier decisions of people. Output: the tables of a set, its ledger and its page.

Each package has its definition, its steps (the only code that touches files and models), its rules (pure functions from
tables to tables) and its page. `flows/` defines the order of the steps. Shared by all: `judged_pairs.py` (a judge's
decisions on proposed pairs), `publication.py` (apply decisions, check, publish), `publication_guards.py` (stop a build
that loses much), `lint.py` (checks of a published set), `set_page.py`.
"""
