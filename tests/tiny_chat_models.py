"""Tiny random models of the real classes, with a tokenizer of single bytes, saved as a hub folder is."""

import json
from pathlib import Path
from typing import Any

PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
_SPECIAL = [PAD, START, END, "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
_OUTPUT_CHARACTERS = "abcdefghijklmnopqrstuvwxyz0123456789"  # what the models write; they read every byte
_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.content is string %}{{ m.content }}{% else %}"
    "{% for c in m.content %}{% if c.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% else %}{{ c.text }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
IMAGE_MODELS = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl")


def save_tokenizer(folder: Path, words: tuple[str, ...] = ()) -> Any:
    """Every byte is a token, and so is each of `words`; the chat template is Qwen's, shortened."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({c: n for n, c in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in _SPECIAL])
    tokenizer.add_tokens(list(words))
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END, pad_token=PAD, chat_template=_TEMPLATE)
    fast.save_pretrained(folder)
    return fast


def save_chat_model(folder: Path) -> Path:
    """A Qwen2 of a few thousand weights."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    ids = _ids(save_tokenizer(folder))
    _save(Qwen2ForCausalLM, Qwen2Config(**_text(ids)), ids, folder)
    return folder


def save_image_chat_model(kind: str, folder: Path, words: tuple[str, ...] = ()) -> Path:
    """A vision-language model of Qwen's second, second and a half, or third generation, which may write `words`."""
    import transformers

    tokenizer = save_tokenizer(folder, words)
    ids = _ids(tokenizer)
    rope = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 2]}
    text = _text(ids) | {"rope_parameters": rope, "head_dim": 8}
    vision = {"depth": 2, "num_heads": 2, "hidden_size": 32, "patch_size": 14}
    if kind == "qwen2_vl":
        config, model = transformers.Qwen2VLConfig, transformers.Qwen2VLForConditionalGeneration
        vision |= {"embed_dim": 32, "mlp_ratio": 2}
    elif kind == "qwen2_5_vl":
        config, model = transformers.Qwen2_5_VLConfig, transformers.Qwen2_5_VLForConditionalGeneration
        vision |= {"out_hidden_size": 32, "intermediate_size": 48, "window_size": 56, "fullatt_block_indexes": [1]}
    else:
        config, model = transformers.Qwen3VLConfig, transformers.Qwen3VLForConditionalGeneration
        vision |= {"out_hidden_size": 32, "intermediate_size": 48, "patch_size": 16}
        vision |= {"deepstack_visual_indexes": [0], "num_position_embeddings": 64}
    tokens = {"image_token_id": "<|image_pad|>", "video_token_id": "<|video_pad|>"}
    tokens |= {"vision_start_token_id": "<|vision_start|>", "vision_end_token_id": "<|vision_end|>"}
    places = {name: ids[token] for name, token in tokens.items()}
    written = ids | {word: tokenizer.convert_tokens_to_ids(word) for word in words}
    _save(model, config(text_config=text, vision_config=vision, **places), written, folder)
    processor = {
        "image_processor_type": "Qwen2VLImageProcessorFast" if kind == "qwen3_vl" else "Qwen2VLImageProcessor",
        "processor_class": {"qwen2_vl": "Qwen2VLProcessor", "qwen2_5_vl": "Qwen2_5_VLProcessor"}.get(
            kind, "Qwen3VLProcessor"
        ),
        "size": {"shortest_edge": 56 * 56, "longest_edge": 28 * 28 * 16384},
        "patch_size": vision["patch_size"],
        "merge_size": 2,
        "temporal_patch_size": 2,
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    return folder


def save_llava_model(folder: Path) -> Path:
    """A model of another family, whose own processor needs no torchvision."""
    import transformers

    tokenizer = save_tokenizer(folder)
    ids = _ids(tokenizer)
    text = _text(ids) | {"model_type": "qwen2"}
    vision = {"model_type": "clip_vision_model", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    vision |= {"num_attention_heads": 2, "image_size": 28, "patch_size": 14, "projection_dim": 32}
    config = transformers.LlavaConfig(
        text_config=text, vision_config=vision, image_token_id=ids["<|image_pad|>"], image_seq_length=4
    )
    _save(transformers.LlavaForConditionalGeneration, config, ids, folder)
    images = transformers.CLIPImageProcessor(size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28})
    transformers.LlavaProcessor(
        images,
        tokenizer,
        patch_size=14,
        vision_feature_select_strategy="default",
        image_token="<|image_pad|>",
        num_additional_image_tokens=1,
        chat_template=_TEMPLATE,
    ).save_pretrained(folder)
    return folder


def _ids(tokenizer: Any) -> dict[str, int]:
    return {token: tokenizer.convert_tokens_to_ids(token) for token in [*_SPECIAL, *_OUTPUT_CHARACTERS]} | {
        "": len(tokenizer)
    }


def _text(ids: dict[str, int]) -> dict[str, Any]:
    return {
        "vocab_size": ids[""],
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 4096,
        "bos_token_id": None,
        "eos_token_id": ids[END],
        "pad_token_id": ids[PAD],
        "tie_word_embeddings": False,
    }


def _save(model_class: Any, config: Any, ids: dict[str, int], folder: Path) -> None:
    import torch
    from transformers import GenerationConfig
    from transformers.utils import logging

    logging.disable_progress_bar()
    torch.manual_seed(7)
    config.tie_word_embeddings = False
    model = model_class(config)
    with torch.no_grad():  # far apart, so that no rounding decides between two tokens
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.normal_(0.0, 0.3)
        head = model.get_output_embeddings().weight
        written = [number for token, number in ids.items() if token and token not in _SPECIAL]
        head[[n for n in range(len(head)) if n not in written]] = 0.0
        head *= 5.0
    model.generation_config = GenerationConfig(eos_token_id=[ids[END], ids[PAD]], pad_token_id=ids[PAD])
    model.save_pretrained(folder)
