"""Figures of a search system on a set, how far they can be trusted, and the exact search behind them.

Judgments become numbers in truth.py; ranking.py is the one place for order, ties and what is missing; metrics.py holds
the formulas, one function each, and metric_names.py what they are called. Everything here is arrays and tables: files
are opened in backends.
"""
