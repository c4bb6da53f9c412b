"""Precision sets: each query is a label or a mix of labels, with many right images.

In: annotations (COCO, Objects365, VOC, LVIS), a tag tree, maps of compatible labels. Out: graded judgments with
evidence, and near misses.

In reading order: `definition.py`, `steps.py`, `annotation_files.py` and `annotation_records.py`, `tag_files.py` (tags
of whole images), `fact_files.py` (facts of photos, from `builders/album`), `label_files.py`,
`tag_tree.py`, `compatibility.py` (which label accepts whose images), `label_steps.py`, `annotated_gallery.py`,
`box_forms.py` (what four numbers are), `boxes.py`, `label_index.py`, `mixes.py` (what is asked), `judgments.py` (the
truth), `families/` (numbers, sizes, places, absence, attributes, people), `attributes.py`, `detections.py` (what
annotators left out), `phrasings.py` with `phrasing_steps.py` (a model words queries), `label_translations.py` (a crane
is no bird).
"""
