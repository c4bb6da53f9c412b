"""Beam search that processes each prompt once, through the public interface of transformers' caches.

transformers processes a prompt once per beam. An image takes some hundred tokens of the prompt and its caption 48, so
most of this work is repeated. Here the prompts fill a cache, which is then repeated for the beams, as the transformers
documentation describes for shared prompts ("Prefill a cache").
"""

import logging
from typing import Any

from transformers import GenerationConfig

from querytruth.backends.environment import is_out_of_memory

_READ_ONCE = ("llava", "qwen2_vl", "qwen2_5_vl", "qwen3_vl")  # the tests compare these with transformers' own search
_CACHE_NAMES = ("cache", "past_key_values")  # since transformers 5.24, and before
_log = logging.getLogger(__name__)
_left_to_transformers: set[type] = set()  # classes of models for which its own search did what this one could not


def generate_with_beams(model: Any, inputs: dict[str, Any], config: Any) -> Any:
    """Return token ids as the model's own `generate` does, of shape (questions, prompt and text)."""
    is_known = model.config.model_type in _READ_ONCE and type(model) not in _left_to_transformers
    if config.num_beams == 1 or not is_known:
        return model.generate(**inputs, generation_config=config)
    filled = _fill_cache(model, inputs, config)  # raises where the questions or the library are at fault
    try:
        return _generate_from_cache(model, filled, inputs, config)
    except Exception as error:
        if is_out_of_memory(error):
            raise
        reason = f"{type(error).__name__}: {error}"
    tokens = model.generate(**inputs, generation_config=config)
    _left_to_transformers.add(type(model))
    _log.warning("prompts are processed once per beam, which is slower: transformers changed its caches (%s)", reason)
    return tokens


def _fill_cache(model: Any, inputs: dict[str, Any], config: Any) -> Any:
    """Return the output of `generate` for the first token of each question, with the cache of the prompts."""
    ends = {"eos_token_id": config.eos_token_id, "pad_token_id": config.pad_token_id}
    once = GenerationConfig(max_new_tokens=1, num_beams=1, do_sample=False, return_dict_in_generate=True, **ends)
    return model.generate(**inputs, generation_config=once)


def _generate_from_cache(model: Any, filled: Any, inputs: dict[str, Any], config: Any) -> Any:
    name = next(name for name in _CACHE_NAMES if name in filled)
    cache = filled[name]
    cache.crop(-1)  # generation continues from the prompt's last token
    cache.batch_repeat_interleave(config.num_beams)
    prompts = {part: inputs[part] for part in ("input_ids", "attention_mask")}
    return model.generate(**prompts, **{name: cache}, generation_config=config)
