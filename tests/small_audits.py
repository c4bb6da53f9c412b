"""The tables and the manifest of an audit of one pair."""

from typing import Any

import pandas as pd

PAIRS = pd.DataFrame({"query_id": ["q_1"], "image_id": ["img_1"]})
TABLES = {
    "pool": PAIRS.assign(relevance=1, best_rank=1, stratum="outside"),
    "ranks": PAIRS.assign(system="one", rank=1),
    "sample": PAIRS.assign(stratum="outside", probability=0.5, order=0),
}
MANIFEST: dict[str, Any] = {
    "schema_version": 1,
    "name": "first",
    "set": {"name": "small", "version": 1, "content_digest": "0" * 64},
    "systems": [{"name": "one", "digest": "x"}],
    "judge": None,
    "depth": 1,
    "seed": 0,
    "unit": "pairs",
    "queries": 1,
    "strata": [{"stratum": "outside", "pairs": 1, "drawn": 1}],
    "outside": {"pairs": 1, "drawn": 1},
    "audit_id": "a_1",
}
