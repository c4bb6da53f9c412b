"""Leases on questions as one object of a bucket, replaced on the condition that nobody else replaced it meanwhile."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Any

from backends.object_storage.bucket import Bucket
from backends.replies.question_leases import is_over
from backends.replies.reply_keys import canonical_json_text
from builders.errors import UserError
from builders.strict_json import parse_bounded_json

_MAX_BYTES = 64 << 20
_ATTEMPTS = 40
_PAUSE_SECONDS = 0.4  # at most, between two attempts

Leases = dict[str, dict[str, Any]]  # by holder: when they expire, and the keys


class BucketLeases:
    """The leases of all runs, in the object of this key."""

    def __init__(self, bucket: Bucket, key: str) -> None:
        self._bucket, self._key = bucket, key

    def take(self, keys: Sequence[str], holder: str, expires: float) -> set[str]:
        """Gives those of the keys to the holder that no other one holds (seconds since 1970), and returns them."""
        held: set[str] = set()

        def add(leases: Leases) -> bool:
            taken = {key for other, lease in leases.items() if other != holder for key in lease["keys"]}
            held.clear()
            held.update(key for key in keys if key not in taken)
            if held:
                leases[holder] = {"expires": expires, "keys": sorted(held)}
            return bool(held)

        self._change(add)
        return held

    def renew(self, holder: str, expires: float) -> None:
        """Prolongs all leases of the holder."""

        def prolong(leases: Leases) -> bool:
            if holder in leases:
                leases[holder]["expires"] = expires
            return holder in leases

        self._change(prolong)

    def release(self, holder: str) -> None:
        """Ends all leases of the holder."""
        self._change(lambda leases: leases.pop(holder, None) is not None)

    def _change(self, change: Callable[[Leases], bool]) -> None:
        """Lets `change` change the leases that hold, and stores them where it returns True."""
        for attempt in range(_ATTEMPTS):
            stored = self._bucket.read_tagged(self._key, _MAX_BYTES)
            leases = {} if stored is None else self._parse(stored[0])
            holding = {one: lease for one, lease in leases.items() if not is_over(one, lease["expires"])}
            if not change(holding):
                return
            data = canonical_json_text(holding).encode()
            if stored is None:
                is_stored = self._bucket.put_new(self._key, data)
            else:
                is_stored = self._bucket.put_changed(self._key, data, stored[1])
            if is_stored:
                return
            time.sleep(random.uniform(0, min(_PAUSE_SECONDS, 0.02 * 2**attempt)))
        next_step = "run the same command"
        raise UserError("reply store", self._bucket.url_of(self._key), "other runs keep replacing it", next_step)

    def _parse(self, data: bytes) -> Leases:
        try:
            leases: Leases = parse_bounded_json(data)
            for holder, lease in leases.items():
                _machine, process, _start, _run = holder.split(" ")
                if not all(isinstance(key, str) for key in lease["keys"]) or int(process) < 1:
                    raise ValueError("no lease")
                lease["expires"] = float(lease["expires"])
        except (ValueError, KeyError, TypeError, AttributeError):
            next_step = "delete that object while no build runs: it holds no answer"
            raise UserError("reply store", self._bucket.url_of(self._key), "is no list of leases", next_step) from None
        return leases
