"""Types of NumPy arrays. A name states the kind of numbers; docstrings give the shapes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

AnyArray = NDArray[Any]
BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
GreyImage = NDArray[np.uint8]  # (height, width)
Hashes = NDArray[np.uint64]  # (n,): 64-bit hashes
RowIndices = NDArray[np.int64]  # (n,): positions of rows in a table or an array
Vectors = NDArray[np.float32]  # (n, d): one embedding per row
