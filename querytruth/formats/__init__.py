"""Sets in and from the formats of others.

In: files as their publisher ships them. Out: tables with a ledger; and the other way round, folders that the evaluators
of the field load.

`importers/` and `exporters/`: one module a format, named as it. What they share: `imported_tables.py` (every entry is
accepted or listed), `import_layouts.py`, `parquet_shards.py`, `set_images.py`, `set_description.py` (what a format
leaves out), `set_card.py` (README.md in the form of Hugging Face).
"""
