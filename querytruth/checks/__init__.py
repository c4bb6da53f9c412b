"""Golden queries: a few queries with the images that a search must show, checked at every change of the search.

In: a golden file (YAML, or a table of queries and images), the folder of the images, and a search: a live system, its
recorded answers, or a run file. Out: pass, fail, known failure or fixed for each case, with the ranks before and now;
a lock file, a page, and reports for CI.

In reading order: `golden_file.py` (the cases, and their images in the folder), `answers.py` (what the search answers,
and which files these ids are), `verdicts.py` (the status of each case and floor, and the ranks before); beside them
`proposed_search.py` (a search from its address alone). `flows/check.py` tells the chain, and writes the reports.

No statistics: a check says which case broke, `querytruth gate` whether a search got worse.
"""
