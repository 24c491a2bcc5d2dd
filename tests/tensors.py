"""The tensors that tests of derivatives start from."""

import minigrad as mg


def leaf(values):
    """Return a float64 leaf whose gradient is wanted, with memory of its own."""
    return mg.tensor(values, dtype=mg.float64, requires_grad=True)
