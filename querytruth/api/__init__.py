"""The Python API: functions and objects that the commands and `import querytruth` share. They print nothing.

In: definitions, sets, runs. Out: sets with methods, and results as data frames.

In reading order: `loaded_set.py` (load, and a set's methods: lint, diff, rebuild, apply, publish, export, search,
leaderboard …), `set_views.py` (what these methods answer with), `set_builds.py` (build, plan, generate, import, train),
`set_trust.py` (audit, notice), `evaluations.py` (evaluate), `comparisons.py` (compare, gate, plan_size).
"""
