"""The web as a crawler may use it: public addresses only, robots rules, limits on bytes, time and requests per host.

In: addresses of images and of image searches. Out: pages and images, each with a row in the fetch table.

In reading order: `web_records.py` (strict addresses, requests, results), `page_store.py` (every fetch is kept),
`stored_fetches.py` (what is kept is not fetched again), `image_fetch_pool.py` (many at a time), `host_rules.py`
(robots.txt, pauses, intervals), `crawler_client.py` (one fetch, in the event loop), `pinned_connections.py` (addresses
that may be dialled); `image_search/` (one module a search); `timed_http.py`, `json_calls.py` (model endpoints and a
user's own services, which may be private); `offline.py` (a run that connects to nothing).
"""
