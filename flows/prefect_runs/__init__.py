"""How a build runs under Prefect: its parameters, its tasks, its runners, what it tells, where it waits."""
