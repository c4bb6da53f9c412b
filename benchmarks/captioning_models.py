"""Vision-language models of random weights for the captioning benchmark: full-size ones, and small ones of their make.

Sizes are those of the config.json that Qwen publishes with Qwen/Qwen2.5-VL-7B-Instruct and Qwen/Qwen3-VL-8B-Instruct.
So built, the models have as many weights as the published ones: 8,292,166,656 and 8,767,123,696, half the `total_size`
in their model.safetensors.index.json, which counts bytes of bfloat16. Tokens are single bytes and the weights mean
nothing, on which the speed does not hang: how many tokens are written is fixed. Nothing is downloaded.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
SPECIAL = [PAD, START, END, "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
OUTPUT_CHARACTERS = "abcdefghijklmnopqrstuvwxyz"  # what the models write
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% for c in m.content %}{% if c.type == 'image' %}"
    "<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ c.text }}{% endif %}{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CONFIG_CLASSES = {"Qwen2.5-VL": "Qwen2_5_VLConfig", "Qwen3-VL": "Qwen3VLConfig"}
FULL: dict[str, dict[str, dict[str, Any]]] = {
    "Qwen2.5-VL": {
        "text_config": {
            "hidden_size": 3584,
            "intermediate_size": 18944,
            "num_hidden_layers": 28,
            "num_attention_heads": 28,
            "num_key_value_heads": 4,
            "vocab_size": 152064,
            "rms_norm_eps": 1e-6,
            "max_position_embeddings": 128000,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24]},
        },
        "vision_config": {
            "depth": 32,
            "hidden_size": 1280,
            "intermediate_size": 3420,
            "num_heads": 16,
            "out_hidden_size": 3584,
            "patch_size": 14,
            "window_size": 112,
            "fullatt_block_indexes": [7, 15, 23, 31],
        },
    },
    "Qwen3-VL": {
        "text_config": {
            "hidden_size": 4096,
            "intermediate_size": 12288,
            "num_hidden_layers": 36,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "vocab_size": 151936,
            "rms_norm_eps": 1e-6,
            "max_position_embeddings": 262144,
            "rope_parameters": {"rope_type": "default", "rope_theta": 5e6, "mrope_section": [24, 20, 20]},
        },
        "vision_config": {
            "depth": 27,
            "hidden_size": 1152,
            "intermediate_size": 4304,
            "num_heads": 16,
            "out_hidden_size": 4096,
            "patch_size": 16,
            "num_position_embeddings": 2304,
            "deepstack_visual_indexes": [8, 16, 24],
        },
    },
}
SMALL: dict[str, dict[str, dict[str, Any]]] = {  # these in place of the full sizes; all else stays
    "Qwen2.5-VL": {
        "text_config": {
            "hidden_size": 256,
            "intermediate_size": 1344,
            "num_hidden_layers": 6,
            "num_attention_heads": 4,
            "num_key_value_heads": 1,
            "vocab_size": 8192,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [8, 12, 12]},
        },
        "vision_config": {
            "depth": 6,
            "hidden_size": 96,
            "intermediate_size": 256,
            "num_heads": 4,
            "out_hidden_size": 256,
            "fullatt_block_indexes": [2, 5],
        },
    },
    "Qwen3-VL": {
        "text_config": {
            "hidden_size": 256,
            "intermediate_size": 768,
            "num_hidden_layers": 8,
            "num_attention_heads": 4,
            "num_key_value_heads": 1,
            "head_dim": 64,
            "vocab_size": 8192,
            "rope_parameters": {"rope_type": "default", "rope_theta": 5e6, "mrope_section": [12, 10, 10]},
        },
        "vision_config": {
            "depth": 6,
            "hidden_size": 96,
            "intermediate_size": 360,
            "num_heads": 4,
            "out_hidden_size": 256,
            "deepstack_visual_indexes": [1, 2, 4],
        },
    },
}


def make_config(kind: str, size: str) -> Any:
    """`kind`: a key of FULL; `size`: full | small."""
    sizes = {part: dict(given) for part, given in FULL[kind].items()}
    for part, given in SMALL[kind].items() if size == "small" else ():
        sizes[part] |= given
    ids = {token: 256 + place for place, token in enumerate(SPECIAL)}
    sizes["text_config"] |= {"bos_token_id": None, "eos_token_id": ids[END], "pad_token_id": ids[PAD]}
    places = {"image_token_id": "<|image_pad|>", "video_token_id": "<|video_pad|>"}
    places |= {"vision_start_token_id": "<|vision_start|>", "vision_end_token_id": "<|vision_end|>"}
    named = {name: ids[token] for name, token in places.items()}
    return getattr(transformers, CONFIG_CLASSES[kind])(**sizes, **named, tie_word_embeddings=False)


def init_random_model(kind: str, size: str, device: str, dtype: str) -> Any:
    """A model whose weights are drawn on the device; on `meta` it has none and takes no memory."""
    torch.manual_seed(7)
    with torch.device(device):
        auto_class = transformers.AutoModelForImageTextToText
        return auto_class.from_config(make_config(kind, size), dtype=getattr(torch, dtype))


def save_random_model(kind: str, size: str, device: str, dtype: str, folder: Path) -> int:
    """A folder as the hub has it: weights, configuration, tokenizer, image processor. Answers how many weights."""
    transformers.utils.logging.disable_progress_bar()
    tokenizer = save_tokenizer(folder)
    model = init_random_model(kind, size, device, dtype)
    letters = tokenizer.convert_tokens_to_ids(list(OUTPUT_CHARACTERS))
    with torch.no_grad():  # letters alone are written, far enough apart that no rounding decides between two
        head = model.get_output_embeddings().weight
        kept = head[letters] * 50
        head.zero_()[letters] = kept
    text = model.config.text_config
    model.generation_config = transformers.GenerationConfig(
        eos_token_id=[text.eos_token_id, text.pad_token_id], pad_token_id=text.pad_token_id
    )
    model.save_pretrained(folder)
    processor = {
        "image_processor_type": "Qwen2VLImageProcessor",
        "size": {"shortest_edge": 56 * 56, "longest_edge": 28 * 28 * 1280},
        "patch_size": model.config.vision_config.patch_size,
        "merge_size": 2,
        "temporal_patch_size": 2,
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    return sum(weight.numel() for weight in model.parameters())


def save_tokenizer(folder: Path) -> Any:
    """Every byte is a token, the special ones come after; the chat template is Qwen's, shortened."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: number for number, letter in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=END, pad_token=PAD, chat_template=TEMPLATE
    )
    fast.save_pretrained(folder)
    return fast
