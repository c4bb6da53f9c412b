"""Files and buckets. Outside data is read within limits; our own data is written durably.

In: paths and URLs of object storage. Out: bytes, lines, tables.

In reading order: `durable_files.py` (atomic writes, append-only logs, journals), `safe_paths.py` (no path leads out of
its folder), `option_paths.py` (which options are paths), `text_formats.py` (JSON, YAML, CSV, each strict),
`text_files.py` (lines of files from other publishers), `table_rows.py` (tables of every format) with
`spreadsheet_rows.py`, and properties of a whole file: `table_profile.py` (its encoding, header and end),
`column_profile.py` (its numbers), `spreadsheet_writing.py` (a sheet of texts and images), `json_stream.py` (one large
JSON object in pieces), `parquet_files.py` with `parquet_batches.py`, which a worker runs, and `tar_files.py` (untrusted
archives, in bounded memory), `bucket_urls.py` (addresses in object storage, and the cache on this machine), `bucket.py`
(the only module that connects), `object_store.py` (a store of named bytes in a database or a bucket).
"""
