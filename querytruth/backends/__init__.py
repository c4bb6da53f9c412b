"""Files, sockets and models: what knows no set, no query and no truth.

In: paths, addresses, questions. Out: tables, decoded images, vectors, replies, each checked before it is passed on.

Rooms: `files/`, `images/`, `models/`, `web/`, `search_systems/`. What all of them use: `plugins.py` (a module of a
plug-in package is one choice of an option), `steps.py` (how the steps of a build run, here or on a cluster),
`environment.py` (versions of libraries, and faults of which no item is the cause), `id_patterns.py` (the forms in
which searches name images).
"""
