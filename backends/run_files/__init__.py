"""Rankings and judgments that other programs wrote: run files, qrels files, matrices of similarities; and results of
our own (result_files.py).

A run file is read by what its suffix says (run_reading.py); its rows come as a table query_id, image_id, score, in the
file's order. What a file means for a set (unknown queries, images that came back twice) is evaluation's to judge; what
cannot be read is refused here, with the line where it stands.
"""
