"""Figures of a search system on a set, how far they can be trusted, and the exact search behind them.

Judgments become numbers in truth.py; ranking.py is the one place for order, ties and what is missing; metrics.py holds
the formulas, one function each, and metric_names.py what they are called. evaluating.py puts together all that is said
of a run, evaluated.py is what comes of it; side_by_side.py and stability.py compare systems, and sets. Everything here
is arrays and tables: files are opened in backends.
"""
