"""What definitions of several kinds have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class StrictModel(BaseModel):
    """Refuses keys that it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class SetDefinition(StrictModel):
    """What every kind of set has. `out` is where sets land; a relative one is below the working directory.
    `lose_at_most`: the share of the last version's queries (of its pictures, where there are none) that a build may
    lose without being stopped, null: all of them."""

    kind: str
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    title: str = ""
    licence: str = ""
    seed: int = 0
    out: Path = Path("datasets")
    lose_at_most: float | None = Field(None, ge=0, le=1, allow_inf_nan=False)


class NearDuplicateOptions(StrictModel):
    """What counts as the same picture besides the same bytes and the same pixels: perceptual hashes within
    `distance` bits (null: none), turned ones too, and picture embeddings of at least `cosine`."""

    distance: int | None = Field(6, ge=0, le=16)
    flips: bool = False
    rotations: bool = False
    embedder: str | None = None
    cosine: float = Field(0.95, gt=0, le=1)


class RenderOptions(StrictModel):
    """Pictures as the set holds them. `squash` as the seed article does, `fit` with padding, `crop`."""

    size: int = Field(512, ge=16, le=4096)
    mode: Literal["squash", "fit", "crop"] = "squash"
