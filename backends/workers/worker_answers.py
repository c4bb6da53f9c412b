"""The parent's side of a worker's answers: they are data, whatever a file has made of the worker that sends them."""

import io
import pickle
import sys
from typing import Any

from backends.workers.worker_main import RAISED

LONGEST_ANSWER = 1 << 30  # bytes
_ARRAY_PARTS = {  # of NumPy's arrays, under the names of its second and its first version
    (f"numpy.{core}.{module}", name)
    for core in ("_core", "core")
    for module, name in (("multiarray", "_reconstruct"), ("numeric", "_frombuffer"))
} | {("numpy", "ndarray"), ("numpy", "dtype")}


class InvalidAnswer(Exception):
    """Raised for bytes that are no answer, with the reason."""


def read_answer(data: bytes) -> tuple[int, Any]:
    """Returns the kind of an answer and its value. Raises InvalidAnswer; no code of the sender runs."""
    try:
        answer = _AnswerReader(io.BytesIO(data)).load()
    except Exception as error:  # invalid pickles raise any exception
        raise InvalidAnswer(f"it is no data: {error}") from None
    if not isinstance(answer, tuple) or len(answer) != 2 or (answer[0] == RAISED) != isinstance(answer[1], Exception):
        raise InvalidAnswer("it is no result")
    return answer


class _AnswerReader(pickle.Unpickler):
    """Knows records, arrays and Python's own exceptions, and no other class or function."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _ARRAY_PARTS:
            return super().find_class(module, name)
        found = getattr(sys.modules.get(module), name, None)
        is_record = isinstance(found, type) and issubclass(found, tuple) and hasattr(found, "_fields")
        is_error = module == "builtins" and isinstance(found, type) and issubclass(found, Exception)
        if not is_record and not is_error:
            raise pickle.UnpicklingError(f"an answer names {module}.{name}")
        return found
