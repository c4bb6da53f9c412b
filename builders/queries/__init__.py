"""Own queries: what people typed into a search, from its log, with the images that are searched.

In: a search log or a list of queries (txt, csv, tsv, jsonl, xlsx) and a gallery. Out: a set of queries, drawn by how
often they were asked, that waits for its first judgments. No private text leaves the log.

In reading order: `definition.py`, `steps.py`, `log_files.py` (lines of a log), `log_texts.py` (what counts as the same
question, and what is quarantined), `search_log.py` (a whole log, joined, and what is drawn of it).
"""
