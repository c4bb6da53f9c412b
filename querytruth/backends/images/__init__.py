"""Image files: found, decoded by workers that may die, measured, rendered.

In: a folder, a URL, a list or a table of images. Out: rows of facts (size, time, place, hashes, quality), pixels,
rendered files.

In reading order: `image_sources.py` with `source_readers.py` and `source_names.py` (what a source lists),
`image_folder.py` (images that annotations name), `image_reading.py` (all facts of one file) upon `image_headers.py`,
`image_decoding.py`, `jpeg_files.py`, `image_colours.py`, `exif.py`, `private_metadata.py` (metadata that exports
remove), `metadata_blocks.py` and `written_facts.py` (facts written into files and sidecars); `image_quality.py`,
`image_views.py`; `hash_neighbours.py`, `image_alignment.py`, `pair_measures.py`, `same_images.py` (which images are the
same); `rendering.py`; `text_reading.py` (texts in images); `scan_parts.py` (stored scan results). The workers:
`worker_processes.py`, `worker_starts.py`, `worker_messages.py`, and, inside them, `worker_main.py`, which drops all
privileges before the first file.
"""
