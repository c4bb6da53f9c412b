"""The `querytruth` command: parses, calls, prints. No logic, no rendering.

`command_list.py` lists the commands, which is printed before anything is loaded; `app.py` runs them, `command_line.py`
makes functions commands. One file holds what belongs together: `start_commands.py` (init, doctor), `demo.py`,
`build_commands.py`, `self_instruct_commands.py` (topics, objects, collect, train), `set_commands.py` (list, show,
verify, lint, diff, rebuild, gc), `review_commands.py`, `evaluate_command.py`, `check_commands.py`,
`comparison_commands.py` (compare, gate, plan-size, leaderboard), `search_commands.py`, `trust_commands.py` (audit,
overlap, notice), `judge_commands.py` (judge, replies), `exchange_commands.py` (import, export, publish,
fetch).
Options that several share are in `options.py`, tables in `result_tables.py`, `trust_tables.py` and `build_output.py`.
"""
