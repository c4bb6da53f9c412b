"""Recall sets: each query is the caption of one image, and finds it again among all.

In: a gallery, a chat model or written captions. Out: queries and judgments; a caption that fits several images is
found, and resolved by the policy.

In reading order: `definition.py`, `steps.py`, `captions.py` (asked), `human_captions.py`, `caption_cleaning.py` by
`caption_rules.py`; ambiguity: `candidate_pairs.py` (proposed by phrases, words and vectors), `confusable_images.py`,
`confusable_scores.py`, `pair_features.py`, `calibration.py` (how likely it fits), `ambiguity.py` (what becomes of it),
`ambiguity_steps.py`, `similarity_models.py`; what captions say: `phrases.py`, `caption_index.py`,
`caption_statements.py`; `nested_sets.py`, `page.py`.
"""
