"""Beam search over prompts that are read once.

transformers reads a prompt once for every beam, and with every token that it writes copies all that the beams have in
memory, twice. A picture is some hundred tokens of prompt and its caption 48: most of that work is the same work again.
Here the prompt is read once for a question, and as its beams share it, only what they wrote themselves moves.
"""

from __future__ import annotations

from typing import Any

from transformers import DynamicCache, GenerationConfig
from transformers.cache_utils import DynamicLayer

_READ_ONCE = ("llava", "qwen2_vl", "qwen2_5_vl", "qwen3_vl")  # the tests compare these with transformers' own search


def generate_with_beams(model: Any, inputs: dict[str, Any], config: Any) -> Any:
    """What the model's own `generate` gives: token ids of shape (questions, prompt and text)."""
    if config.num_beams > 1 and model.config.model_type in _READ_ONCE:
        cache = _fill_cache(model, inputs, config)
        if isinstance(cache, DynamicCache) and all(type(layer) is DynamicLayer for layer in cache.layers):
            for place, layer in enumerate(cache.layers):  # one after the other: what is spread frees what it came from
                cache.layers[place] = _BeamLayer(layer, config.num_beams, config.max_new_tokens)
            prompts = {name: inputs[name] for name in ("input_ids", "attention_mask")}
            return model.generate(**prompts, past_key_values=cache, generation_config=config)
    return model.generate(**inputs, generation_config=config)


def _fill_cache(model: Any, inputs: dict[str, Any], config: Any) -> Any:
    """What the model has in memory after the prompts, or None where it keeps nothing."""
    ends = {"eos_token_id": config.eos_token_id, "pad_token_id": config.pad_token_id}
    once = GenerationConfig(max_new_tokens=1, num_beams=1, do_sample=False, return_dict_in_generate=True, **ends)
    return model.generate(**inputs, generation_config=once).past_key_values


class _BeamLayer(DynamicLayer):  # type: ignore[misc]  # transformers is typed in parts only
    """Keys and values of one layer, of shape (questions x beams, heads, tokens, width), in room for all that will be
    written. The prompt's last token is left out: generation goes on from it."""

    def __init__(self, prompt: Any, beams: int, room: int) -> None:
        super().__init__()
        self.dtype, self.device, self.is_initialized = prompt.dtype, prompt.device, True
        self._shared = self._filled = prompt.keys.shape[2] - 1
        self._all = tuple(self._spread(kept, beams, room) for kept in (prompt.keys, prompt.values))
        self._show()

    def _spread(self, kept: Any, beams: int, room: int) -> Any:
        questions, heads, _, width = kept.shape
        spread = kept.new_empty(questions * beams, heads, self._shared + room, width)
        by_question = spread.view(questions, beams, heads, self._shared + room, width)
        by_question[:, :, :, : self._shared] = kept[:, None, :, : self._shared]
        return spread

    def _show(self) -> None:
        self.keys, self.values = (kept[:, :, : self._filled] for kept in self._all)

    def update(self, key_states: Any, value_states: Any, *_: Any, **__: Any) -> tuple[Any, Any]:
        before, self._filled = self._filled, self._filled + key_states.shape[2]
        for kept, new in zip(self._all, (key_states, value_states), strict=True):
            kept[:, :, before : self._filled] = new
        self._show()
        return self.keys, self.values

    def reorder_cache(self, beam_idx: Any) -> None:
        """Each beam goes on from the one that is named, always one of its own question."""
        for kept in self._all:
            written = kept[:, :, self._shared : self._filled]
            written.copy_(written.index_select(0, beam_idx.to(written.device)))
