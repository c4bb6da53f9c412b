"""Recall sets: each query is the caption of one image, and finds it again among all.

In: a gallery, a chat model or written captions. Out: queries and judgments; a caption that fits several images is
found, and resolved by the policy.

In reading order: `definition.py`, `steps.py`, `captions.py` (asked), `human_captions.py`, `caption_cleaning.py` by
`caption_rules.py`; ambiguity: `caption_words.py` (what captions say), `caption_index.py`, `fit_probability.py` (how
likely one fits an image), `confusable_images.py`, `ambiguity.py` (what becomes of it), `ambiguity_steps.py`,
`similarity_models.py`; `nested_sets.py`, `page.py`.
"""
