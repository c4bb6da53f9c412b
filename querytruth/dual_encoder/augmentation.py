"""Random changes of images, one batch at a time, on the device of the batch.

All changes of geometry (crop, flip, rotation, perspective) are one map from places of the new image to places of the
old one, so each pixel is computed once; brightness, saturation and hue are one matrix per image. The random values
depend only on the generator, never on the images.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import torch
from torch import Tensor

from querytruth.dual_encoder.definition import AugmentationOptions

MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
_LUMA = (0.299, 0.587, 0.114)
_YIQ = ((0.299, 0.587, 0.114), (0.5959, -0.2746, -0.3213), (0.2115, -0.5227, 0.3112))

_SIDES = re.compile(r"\b(left|right)(most|ward|wards|hand)?\b|[左右]", re.IGNORECASE)
_COLOURS = re.compile(
    r"\b(colou?r(ed|ful|s)?|red|orange|yellow|green|blue|purple|violet|pink|brown|beige|tan|gold(en)?|silver|blond(e)?"
    r"|black|white|gr[ae]y|turquoise|teal|navy|maroon|cyan|magenta)\b"
    r"|[红橙黄绿蓝紫粉棕褐黑白灰金银青彩色]",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class AugmentationParameters:
    """The changes of each image of a batch: `coordinate_maps` (n, 3, 3) from new to old places, both from -1 to 1;
    `colour_matrices` (n, 3, 3); `contrast` (n,); which images are stretched and made grey (n,); `erased_boxes` (n, 4),
    edges from 0 to 1."""

    coordinate_maps: Tensor
    colour_matrices: Tensor
    contrast: Tensor
    has_autocontrast: Tensor
    is_greyscale: Tensor
    erased_boxes: Tensor

    def to(self, device: torch.device) -> AugmentationParameters:
        """Return the same there."""
        return AugmentationParameters(*(getattr(self, name).to(device, non_blocking=True) for name in self.__slots__))


def mentions_left_or_right(text: str) -> bool:
    """Return whether a caption, in English or Chinese, mentions left or right: its image must not be mirrored."""
    return _SIDES.search(text) is not None


def mentions_colours(text: str) -> bool:
    """Return whether a caption mentions a colour: the image must keep its hues."""
    return _COLOURS.search(text) is not None


def sample_augmentation(
    count: int,
    generator: torch.Generator,
    rules: AugmentationOptions,
    *,
    keep_orientation: Tensor,
    keep_colours: Tensor,
) -> AugmentationParameters:
    """Change for `count` images. Where `keep_orientation` (count,) nothing is mirrored, where `keep_colours` no hue
    changes and nothing becomes grey: a caption names what would no longer be so."""
    drawn = iter(torch.rand(32, count, generator=generator, dtype=torch.float64))
    crop = _crop(rules, next(drawn), next(drawn), next(drawn), next(drawn))
    flip = (next(drawn) < rules.flip) & ~keep_orientation
    turn = _between(next(drawn), -rules.rotation, rules.rotation) * math.pi / 180
    bent = next(drawn) < rules.perspective
    corners = torch.stack([next(drawn) for _ in range(8)], dim=1).view(count, 4, 2)
    mirror = _matrix(count, r0c0=torch.where(flip, -1.0, 1.0).double())
    rotation = _matrix(count, r0c0=turn.cos(), r0c1=-turn.sin(), r1c0=turn.sin(), r1c1=turn.cos())
    places = crop @ mirror @ rotation @ _perspective(corners * rules.distortion, bent)
    brightness, contrast, saturation = (
        _between(next(drawn), 1 - spread, 1 + spread) for spread in (rules.brightness, rules.contrast, rules.saturation)
    )
    hue = torch.where(keep_colours, 0.0, _between(next(drawn), -rules.hue, rules.hue)) * 2 * math.pi
    stretched = next(drawn) < rules.autocontrast
    grey = (next(drawn) < rules.greyscale) & ~keep_colours
    erased = _erased(rules, next(drawn), next(drawn), next(drawn), next(drawn), next(drawn))
    colours = brightness[:, None, None] * _saturation(saturation) @ _hue(hue)
    return AugmentationParameters(places.float(), colours.float(), contrast.float(), stretched, grey, erased.float())


def apply_augmentation(pixels: Tensor, parameters: AugmentationParameters, size: int) -> Tensor:
    """Return normalised images (n, 3, size, size) of pixels (n, side, side, 3) from 0 to 255. Places outside the image
    are black."""
    batch = pixels.permute(0, 3, 1, 2).float().div_(255)
    augmented = torch.nn.functional.grid_sample(batch, _grid(parameters.coordinate_maps, size), align_corners=False)
    augmented = _coloured(augmented, parameters)
    return _erase_boxes(_normalised(augmented), parameters.erased_boxes)


def center_crop(pixels: Tensor, size: int) -> Tensor:
    """Return the unchanged middle of images, normalised: (n, 3, size, size) of (n, side, side, 3)."""
    edge = (pixels.shape[1] - size) // 2
    cropped = pixels[:, edge : edge + size, edge : edge + size].permute(0, 3, 1, 2)
    # Channels first in memory as well: with channels last and one thread, torch 2.13's backward of a 1 x 1 convolution
    # with stride 2 writes outside its memory on some processors.
    return _normalised(cropped.float().div(255).contiguous())


def _between(drawn: Tensor, low: float, high: float) -> Tensor:
    return low + (high - low) * drawn


def _matrix(count: int, **cells: Tensor) -> Tensor:
    """Return the identity matrix with the given cells replaced (`r0c1`)."""
    matrix = torch.eye(3, dtype=torch.float64).repeat(count, 1, 1)
    for name, values in cells.items():
        matrix[:, int(name[1]), int(name[3])] = values
    return matrix


def _crop(rules: AugmentationOptions, area: Tensor, shape: Tensor, across: Tensor, down: Tensor) -> Tensor:
    """Return a part of the area, from 3:4 to 4:3; the longer side is cut where it is longer than the image's."""
    kept = _between(area, rules.crop, 1)
    ratio = torch.exp(_between(shape, math.log(3 / 4), math.log(4 / 3)))
    if rules.crop >= 1:
        ratio = torch.ones_like(ratio)
    wide, high = (kept * ratio).sqrt().clamp(max=1), (kept / ratio).sqrt().clamp(max=1)
    left, top = (1 - wide) * (2 * across - 1), (1 - high) * (2 * down - 1)
    return _matrix(len(area), r0c0=wide, r1c1=high, r0c2=left, r1c2=top)


def _perspective(inward: Tensor, bent: Tensor) -> Tensor:
    """Return the map that moves the corners of the image inwards by shares (n, 4, 2) of half its side."""
    corners = torch.tensor([[-1, -1], [1, -1], [1, 1], [-1, 1]], dtype=torch.float64)
    seen = corners - corners * inward * bent[:, None, None]
    return _homography(seen, corners.expand_as(seen))


def _homography(start: Tensor, end: Tensor) -> Tensor:
    """Return the maps (n, 3, 3) that take four points (n, 4, 2) to four others."""
    x, y = start.unbind(-1)
    ones, none = torch.ones_like(x), torch.zeros_like(x)
    rows = []
    for axis, first in ((0, (x, y, ones, none, none, none)), (1, (none, none, none, x, y, ones))):
        to = end[..., axis]
        rows.append(torch.stack([*first, -x * to, -y * to], dim=-1))
    solved = torch.linalg.solve(torch.cat(rows, dim=1), torch.cat([end[..., 0], end[..., 1]], dim=1))
    return torch.cat([solved, torch.ones_like(solved[:, :1])], dim=1).view(-1, 3, 3)


def _grid(places: Tensor, size: int) -> Tensor:
    steps = (torch.arange(size, device=places.device) * 2 + 1) / size - 1
    y, x = torch.meshgrid(steps, steps, indexing="ij")
    flat = torch.stack([x, y, torch.ones_like(x)], dim=-1).view(-1, 3)
    mapped = flat @ places.transpose(1, 2)
    return (mapped[..., :2] / mapped[..., 2:].clamp(min=1e-6)).view(-1, size, size, 2)


def _saturation(factor: Tensor) -> Tensor:
    luma = torch.tensor(_LUMA, dtype=torch.float64).expand(3, 3)
    share = factor[:, None, None]
    return share * torch.eye(3, dtype=torch.float64) + (1 - share) * luma


def _hue(turn: Tensor) -> Tensor:
    """Return the matrices (n, 3, 3) that rotate the hue by `turn` (n,) radians, in YIQ."""
    yiq = torch.tensor(_YIQ, dtype=torch.float64)
    turned = _matrix(len(turn), r1c1=turn.cos(), r1c2=-turn.sin(), r2c1=turn.sin(), r2c2=turn.cos())
    shifted: Tensor = torch.linalg.inv(yiq) @ turned @ yiq
    return shifted


def _coloured(images: Tensor, changes: AugmentationParameters) -> Tensor:
    coloured = torch.einsum("nij,njhw->nihw", changes.colour_matrices, images).clamp_(0, 1)
    contrast = changes.contrast.view(-1, 1, 1, 1)
    coloured = (contrast * coloured + (1 - contrast) * _luma(coloured).mean(dim=(2, 3), keepdim=True)).clamp_(0, 1)
    low, high = coloured.amin(dim=(2, 3), keepdim=True), coloured.amax(dim=(2, 3), keepdim=True)
    coloured = torch.where(
        changes.has_autocontrast.view(-1, 1, 1, 1) & (high > low), (coloured - low) / (high - low + 1e-9), coloured
    )
    return torch.where(changes.is_greyscale.view(-1, 1, 1, 1), _luma(coloured), coloured)


def _luma(images: Tensor) -> Tensor:
    return (images * torch.tensor(_LUMA, device=images.device).view(1, 3, 1, 1)).sum(dim=1, keepdim=True)


def _normalised(images: Tensor) -> Tensor:
    mean = torch.tensor(MEAN, device=images.device).view(1, 3, 1, 1)
    return (images - mean) / torch.tensor(STD, device=images.device).view(1, 3, 1, 1)


def _erased(
    rules: AugmentationOptions, chosen: Tensor, area: Tensor, shape: Tensor, across: Tensor, down: Tensor
) -> Tensor:
    """Return left, top, right and bottom of what is erased: 2 to 33% of the area, from 0.3 to 3.3 in shape; all 0:
    nothing."""
    kept = _between(area, 0.02, 0.33)
    ratio = torch.exp(_between(shape, math.log(0.3), math.log(3.3)))
    wide, high = (kept * ratio).sqrt().clamp(max=1), (kept / ratio).sqrt().clamp(max=1)
    left, top = (1 - wide) * across, (1 - high) * down
    edges = torch.stack([left, top, left + wide, top + high], dim=1)
    return torch.where((chosen < rules.erase)[:, None], edges, 0.0)


def _erase_boxes(images: Tensor, erased: Tensor) -> Tensor:
    size = images.shape[-1]
    places = (torch.arange(size, device=images.device) + 0.5) / size
    left, top, right, bottom = (edge[:, None] for edge in erased.unbind(1))
    across, down = (places >= left) & (places < right), (places >= top) & (places < bottom)
    return images.masked_fill((down[:, :, None] & across[:, None, :])[:, None], 0.0)
