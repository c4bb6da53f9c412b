"""Generated sets: topics and objects from a chat model, chosen by people; images of them from an image search.

In: samples of topics. Out: queries with the images that were found for them, each with its source.

In reading order: `definition.py`, `stages.py` (topics, then objects, each ends with a table for people),
`generation_rounds.py`, `topic_rounds.py` (from a person's samples) with `topic_pools.py`, `object_rounds.py` with
`object_pools.py` (a new object differs from all others), `reply_grammar.py` (what a reply lists), `row_rules.py`,
`generation_journal.py`, `generator_health.py`, `strategy_comparison.py` (all strategies on one budget),
`pool_tables.py`; `collect_stage.py` and `collection_steps.py` (the web), `result_screening.py`, `image_collection.py`
(who gets which image), `steps.py`, `page.py`.
"""
