"""Chat models, embedders, and the replies that were paid for.

In: questions with images and texts. Out: replies and vectors, each kept before it is used.

In reading order: `chat/` and `embedders/` (one module a model, named as the option's value), `cached_replies.py` (known
answers are reused, new ones stored at once), `chat_completion.py` (what an endpoint answered), `request_images.py`,
`reply_envelope.py` and `reply_markup.py` (the answer within a reply); `reply_store.py` over the objects of a database
or a bucket, `reply_objects.py` (their names and bytes), `stored_answers.py` (keys, digests), `question_leases.py` (of
several builds one asks); in process: `hub_models.py`, `local_generation.py`, `beam_search.py`; vectors:
`vector_store.py`, `nearest_neighbours.py`.
"""
