"""The dual encoder of real classes, tiny and random."""

import pytest
import torch

from querytruth.dual_encoder.loss import contrastive_loss
from tests.dual_encoder.tiny_towers import make_encoder, make_inputs


@pytest.mark.parametrize("images", ["resnet", "vit"])
@pytest.mark.parametrize("texts", ["bert", "gru", "lstm"])
@pytest.mark.thorough
def test_both_towers_meet_in_one_space_at_length_one(images: str, texts: str) -> None:
    model = make_encoder(images, texts).eval()
    for vectors in model(*make_inputs()):
        assert vectors.shape == (3, 6) and vectors.dtype == torch.float32
        assert torch.allclose(vectors.norm(dim=1), torch.ones(3), atol=1e-6)


@pytest.mark.parametrize("texts", ["bert", "gru", "lstm"])
@pytest.mark.parametrize("pooling", ["mean", "max", "mean_max"])
@pytest.mark.thorough
def test_a_text_is_the_same_however_far_it_is_filled_up(texts: str, pooling: str) -> None:
    model = make_encoder(texts=texts, pooling=pooling).eval()
    _, ids, mask = make_inputs()
    longer = [torch.nn.functional.pad(rows, (0, 5)) for rows in (ids, mask)]
    assert torch.allclose(model.encode_texts(ids, mask), model.encode_texts(*longer), atol=1e-6)


def test_an_image_tower_of_maps_gives_the_mean_over_all_places() -> None:
    tower = make_encoder().eval().pictures
    pixels = make_inputs()[0]
    maps = tower.backbone(pixel_values=pixels).last_hidden_state
    by_hand = torch.stack([torch.stack([plane.mean() for plane in image]) for image in maps])
    assert torch.allclose(tower(pixels), by_hand, atol=1e-6)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("texts", ["bert", "gru"])
@pytest.mark.thorough
def test_a_step_in_mixed_precision_has_finite_gradients(kind: torch.dtype, texts: str) -> None:
    """A batch with two captions of one image, under autocast as a GPU would run it."""
    model = make_encoder(texts=texts)
    right = torch.tensor([[True, True, False], [True, True, False], [False, False, True]])
    with torch.autocast("cpu", dtype=kind):
        images, words = model(*make_inputs())
        assert images.dtype == words.dtype == torch.float32
        assert torch.allclose(words.norm(dim=1), torch.ones(3), atol=1e-6), "not rounded to half precision"
        loss = contrastive_loss(images, words, right, weight=0.5)
    loss.backward()
    assert loss.dtype == torch.float32 and torch.isfinite(loss)
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and torch.isfinite(parameter.grad).all(), name
