"""Beam search that processes each prompt once.

transformers processes a prompt once per beam, and copies the whole cache of the beams twice per new token. An image
takes some hundred tokens of the prompt, its caption 48, so that most of this work is repeated. Here the beams share the
cache of their prompt, and only the keys and values of new tokens are copied.
"""

from typing import Any

from transformers import DynamicCache, GenerationConfig
from transformers.cache_utils import DynamicLayer

_READ_ONCE = ("llava", "qwen2_vl", "qwen2_5_vl", "qwen3_vl")  # the tests compare these with transformers' own search


def generate_with_beams(model: Any, inputs: dict[str, Any], config: Any) -> Any:
    """Returns token ids as the model's own `generate` does, of shape (questions, prompt and text)."""
    if config.num_beams > 1 and model.config.model_type in _READ_ONCE:
        cache = _fill_cache(model, inputs, config)
        if isinstance(cache, DynamicCache) and all(type(layer) is DynamicLayer for layer in cache.layers):
            for place, layer in enumerate(cache.layers):  # one by one, so that each replaced layer is freed
                cache.layers[place] = _BeamLayer(layer, config.num_beams, config.max_new_tokens)
            prompts = {name: inputs[name] for name in ("input_ids", "attention_mask")}
            return model.generate(**prompts, past_key_values=cache, generation_config=config)
    return model.generate(**inputs, generation_config=config)


def _fill_cache(model: Any, inputs: dict[str, Any], config: Any) -> Any:
    """Returns the model's cache after the prompts, or None where it has none."""
    ends = {"eos_token_id": config.eos_token_id, "pad_token_id": config.pad_token_id}
    once = GenerationConfig(max_new_tokens=1, num_beams=1, do_sample=False, return_dict_in_generate=True, **ends)
    return model.generate(**inputs, generation_config=once).past_key_values


class _BeamLayer(DynamicLayer):  # type: ignore[misc]  # transformers is typed in parts only
    """Keys and values of one layer, (questions x beams, heads, tokens, width), allocated for all new tokens. The
    prompt's last token is left out: generation continues from it."""

    def __init__(self, prompt: Any, beams: int, room: int) -> None:
        super().__init__()
        self.dtype, self.device, self.is_initialized = prompt.dtype, prompt.device, True
        self._shared = self._filled = prompt.keys.shape[2] - 1
        self._all = tuple(self._spread(states, beams, room) for states in (prompt.keys, prompt.values))
        self._show()

    def _spread(self, states: Any, beams: int, room: int) -> Any:
        questions, heads, _, width = states.shape
        spread = states.new_empty(questions * beams, heads, self._shared + room, width)
        by_question = spread.view(questions, beams, heads, self._shared + room, width)
        by_question[:, :, :, : self._shared] = states[:, None, :, : self._shared]
        return spread

    def _show(self) -> None:
        self.keys, self.values = (states[:, :, : self._filled] for states in self._all)

    def update(self, key_states: Any, value_states: Any, *_: Any, **__: Any) -> tuple[Any, Any]:
        before, self._filled = self._filled, self._filled + key_states.shape[2]
        for states, new in zip(self._all, (key_states, value_states), strict=True):
            states[:, :, before : self._filled] = new
        self._show()
        return self.keys, self.values

    def reorder_cache(self, beam_idx: Any) -> None:
        """Continues each beam from the beam with the given index, which is one of the same question."""
        for states in self._all:
            written = states[:, :, self._shared : self._filled]
            written.copy_(written.index_select(0, beam_idx.to(written.device)))
