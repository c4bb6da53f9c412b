"""The Python API: functions that the commands and `import querytruth` share. They print nothing.

`set_builds.py` (build, plan, apply, import, export, and the stages of a generated set), `loaded_set.py` (load),
`evaluations.py` (evaluate, search), `comparisons.py` (compare, gate, plan-size, leaderboard, history),
`set_checks.py` (lint, verify, rebuild, diff, publish, fetch), `set_trust.py` (audits, overlaps, shortcuts).
"""
