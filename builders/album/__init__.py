"""Facts of an album: what people and programs wrote into photos and beside them, as tags that can be asked for.

In: a folder of photos with their documents, exports of photo managers. Out: a table of facts and a table of events,
which people correct, and the tags that a precision set asks about.

In reading order: `sidecar_names.py` (which document is about which photo), `steps.py` (reads all of them),
`fact_table.py` (the table: sources, contradictions, corrections), `places.py` (names for coordinates), `events.py`
(events and trips), `fact_tags.py` (tags, what is known to be absent, and how questions are worded), `reading_cards.py`
(texts that people confirm).
"""
