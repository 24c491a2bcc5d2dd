"""Table lookup: the rows of a matrix at given indices."""

from __future__ import annotations

import numpy as np

from minigrad.graph import Array
from minigrad.op import op
from minigrad.rules.indexing import place


def embedding_composed(weight: Array, indices: Array) -> Array:
    """The rows of ``weight`` at ``indices``."""
    return weight[indices]


@op(
    composed=embedding_composed,
    weight=lambda g, indices, weight_shape: place(g, indices, weight_shape),
)
def embedding_lookup(weight: Array, indices: Array) -> Array:
    """weight[indices]: a table (V, d) and integer indices of any shape give (…, d).

    A row's gradient is the sum of the gradients wherever it was looked up; rows not used receive 0.

    Raises:
        IndexError: an index is negative or not below V.
    """
    if indices.size and (indices.min() < 0 or indices.max() >= len(weight)):
        bad = indices[(indices < 0) | (indices >= len(weight))].flat[0]
        raise IndexError(f"index {bad} is out of range for an embedding of {len(weight)} rows")
    return np.take(weight, indices, axis=0)
