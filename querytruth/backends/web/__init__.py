"""The web as a crawler may use it: public addresses only, robots rules, limits on bytes, time and requests per host.

In: addresses of images and of image searches. Out: pages and images, each with a row in the fetch table.

In reading order: `web_records.py` (strict addresses, requests, results), `page_store.py` (stores every fetch),
`stored_fetches.py` (does not repeat stored fetches), `image_fetch_pool.py` (many at a time), `host_rules.py`
(robots.txt, pauses, intervals), `crawler_client.py` (one fetch, in the event loop), `pinned_connections.py` (allowed IP
addresses); `image_search/` (one module per search); `timed_http.py`, `json_calls.py` (model endpoints and a user's own
services, which may be private); `offline.py` (a run without connections).
"""
