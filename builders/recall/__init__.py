"""Recall sets: each query is the caption of one image, which a search must find again among all.

Input: a gallery, a chat model or written captions. Output: queries and judgments; a caption that fits several images is
found, and resolved by the policy.

In reading order: `definition.py`, `steps.py`, `captions.py` (requested), `human_captions.py`, `caption_cleaning.py` by
`caption_rules.py`; ambiguity: `caption_words.py` (the content of captions), `caption_index.py`, `fit_probability.py`
(the probability that one fits an image), `confusable_images.py`, `ambiguity.py` (the policy), `ambiguity_steps.py`,
`similarity_models.py`; `nested_sets.py`, `page.py`.
"""
