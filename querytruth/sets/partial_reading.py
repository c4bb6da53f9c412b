"""How much of a version is read when a share of its images is verified, and what that would have shown.

The tables, the manifest and the list of images are read whole, and the size of every image is compared. Of the images a
share is drawn by the hash of a secret seed, so that nobody who damaged some knew which are read.
"""

import hashlib
import math
import re
import secrets
from collections.abc import Collection

from querytruth.errors import UserError

_FORM = re.compile(r"([0-9]+(?:\.[0-9]+)?)(%?)")
_FAULTY_SHARES = (0.01, 0.1)  # of which the statement says how surely they would have been seen


class PartialReading:
    """The images that one verification reads: `choose` draws them, then str() states what that would have shown."""

    def __init__(self, share: float, seed: str | None = None) -> None:
        """`share`: above 0, at most 1. Raises UserError for another one."""
        if not 0 < share <= 1:
            raise UserError("verify", f"{share:.0%}", "is no share of the images", "give one such as 5% or 0.05")
        self.share, self.total, self.read = share, 0, 0
        self._seed = secrets.token_hex(16) if seed is None else seed

    @classmethod
    def parse(cls, text: str) -> "PartialReading":
        """Returns the reading of a share such as 5% or 0.05. Raises UserError for another text."""
        if (found := _FORM.fullmatch(text.strip())) is None:
            raise UserError("verify", text, "is no share of the images", "give one such as 5% or 0.05")
        return cls(float(found[1]) / (100 if found[2] else 1))

    def choose(self, paths: Collection[str]) -> set[str]:
        """Returns the images that are read: the share of them, rounded up."""
        self.total = len(paths)
        self.read = math.ceil(round(self.share * self.total, 9))
        drawn = sorted(paths, key=lambda path: hashlib.sha256(f"{self._seed}\0{path}".encode()).digest())
        return set(drawn[: self.read])

    def seen(self, faulty: int) -> float:
        """Returns the probability that a reading finds at least one of so many damaged images: 1 less the share of
        draws without any of them (hypergeometric)."""
        if faulty > self.total - self.read:
            return 1.0
        return 1 - math.prod((self.total - self.read - n) / (self.total - n) for n in range(faulty))

    def __str__(self) -> str:
        """How much was read, and how surely a fault in the bytes would have been seen."""
        if self.total == self.read:
            return f"all {self.total:,} images read"
        counts = sorted({1, *(math.ceil(self.total * share) for share in _FAULTY_SHARES)})
        shown = ", ".join(f"{one:,} damaged: {self.seen(one):.1%}" for one in counts)
        return f"{self.read:,} of {self.total:,} images read; probability that a fault would have been seen: {shown}"
