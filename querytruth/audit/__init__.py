"""What shows that a set can be trusted: audits by people, overlaps with other collections, shortcuts, damages.

In: a version, runs of systems, answers of people. Out: estimates with intervals, and pages.

An audit, in the order of work: `definition.py`, `pool.py` (which pairs may be asked), `judge.py` (a model's grades
divide the strata), `steps.py` (plan, prepare, draw), `audit_files.py`, `cards.py` and `answers.py` (people),
`pair_audit.py` (estimates), `report.py`, `page.py` with `page_texts.yaml`, `corrections.py`; the judge itself:
`judge_reliability.py`. An audit until a goal asks the card that counts most, and states what holds at every look:
`certificate.py` (the mathematics), `judging_errors.py` (people err), `next_cards.py`, `card_audit.py`.

An overlap: `requests.py`, `overlap.py` over `overlap_pairs.py`; `overlap_page.py`.
What a set would notice: `mutation_score.py` (planted damages, and what the gate stops), `blind_spots.py` (images that a
search never finds, and what nobody asks), `notice.py` (measured on a system, stored, with a page).
Shortcuts: `shortcut_systems.py` (answers without a look at any image), `shortcuts.py`.
"""
