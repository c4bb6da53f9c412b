"""A set: queries, images, and the truth that binds them, in a folder or in a bucket.

In: tables, decisions of people. Out: versions that never change, each with a manifest, a ledger and digests.

In reading order: `benchmark_set.py` (the tables, their two digests), `ledger.py` (whatever entered a stage left it),
`manifest.py` and `manifest_notes.py`; `set_publishing.py` (written beside, flushed, renamed), `set_places.py`,
`set_files.py` (found, read, verified), `published_files.py`, `set_thumbnails.py`; `bucket_versions.py`,
`bucket_reading.py`, `kept_work.py`, `kept_scan_parts.py` (the same in object storage); decisions: `absent_queries.py`,
`decision_records.py`, `decision_log.py`, `decision_agreement.py`, `decision_outcomes.py`, `decision_application.py`,
`review_tables.py`, `review_csv.py`, `judgment_rows.py`; what is asked of a set: `version_difference.py`,
`leaked_queries.py`, `query_texts.py`, `text_sieve.py` (which texts may become queries), `image_vectors.py`,
`build_progress.py` (how far a build is that runs now).
"""
