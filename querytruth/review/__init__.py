"""Where people look and judge: cards, the page's server, and the pages of results.

In: a version, its decision logs, results. Out: HTML, and decisions for the log.

In reading order: `page_parts.py` (what all pages share) with `page_texts.yaml` (their texts, English and Chinese),
`plots.py`, `vega_lite.py`, `set_parts.py`; judging: `deck.py` (what all views of cards share), the views
`query_queue.py` with `query_cards.py` and `query_views.py`, `gallery_cards.py`, `rejection_table.py` with
`rejection_cards.py`, `pool_views.py`; `query_decisions.py` (actions become decisions), `decisions_page.py`,
`page_socket.py` and `server.py` (who may come in); `review_exports.py` (the same as CSV), `result_pool.py` (what
searches returned and nobody judged), `foreign_judgments.py` (qrels in the ids of others), `similar_images.py` (and the
files of rejected items); reading: `folder_index.py` (the content of a folder), `evaluation_page.py`,
`comparison_page.py`, `difference_page.py` (of two versions), `board_pages.py`, `search_views.py`, `gate_reports.py`,
with `result_cards.py`, `query_selection.py`, `failure_causes.py`, `evaluation_plots.py`.
"""
