"""Figures of a search system on a set, their reliability, and the search by vectors behind them.

ground_truth.py holds judgments as numbers; ranking.py alone defines order, ties and missing queries; metrics.py holds
the formulas, metric_names.py their names. run_evaluation.py computes an evaluation_result.py from a run;
pairwise_comparison.py and stability.py compare systems and sets. Files are opened in backends.
"""
