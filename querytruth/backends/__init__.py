"""Files, sockets and models: code that does not know sets, queries or judgments.

In: paths, addresses, questions. Out: tables, decoded images, vectors, replies, each checked before it is passed on.

Rooms: `files/`, `images/`, `models/`, `web/`, `search_systems/`. Shared: `plugins.py` (a module of a plug-in package is
one choice of an option), `steps.py` (how the steps of a build run, here or on a cluster), `environment.py` (versions of
libraries, and faults that no item causes), `id_patterns.py` (the forms of ids that searches use for images).
"""
