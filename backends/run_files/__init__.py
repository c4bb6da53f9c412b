"""Run files, qrels files and similarity matrices of other programs, and our own evaluation results (result_files.py).

The suffix of a run file, or its content, determines its format (run_reader.py). Its rows become a table query_id,
image_id, score in the order of the file. Unreadable lines are refused here with their number; evaluation checks ids
against the set.
"""
