"""The models of the captioning benchmark are as large as those whose names they bear."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
from benchmarks.captioning_models import init_random_model


@pytest.mark.parametrize(("kind", "published"), [("Qwen2.5-VL", 8_292_166_656), ("Qwen3-VL", 8_767_123_696)])
def test_a_full_size_model_has_as_many_weights_as_the_published_one(kind: str, published: int) -> None:
    model = init_random_model(kind, "full", "meta", "bfloat16")
    assert sum(weight.numel() for weight in model.parameters()) == published
    assert {str(weight.dtype) for weight in model.parameters()} == {"torch.bfloat16"}


@pytest.mark.parametrize("kind", ["Qwen2.5-VL", "Qwen3-VL"])
def test_a_small_model_is_of_the_same_make(kind: str) -> None:
    small, full = (init_random_model(kind, size, "meta", "float32") for size in ("small", "full"))
    assert type(small) is type(full)
    assert sum(weight.numel() for weight in small.parameters()) < 20_000_000
