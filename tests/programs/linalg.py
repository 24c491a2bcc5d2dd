"""Steps that multiply vectors, matrices and tensors."""

import numpy as np
from hypothesis import strategies as st

from .draft import MOST, Draft, kind


@kind
def product(d: Draft) -> None:
    """A matrix product of any two that fit, or of one with its own transpose."""
    a = d.operand(lambda a: a.ndim)
    x = d.values[a]

    def fits(b: np.ndarray) -> bool:
        try:
            return bool(b.ndim) and np.matmul(x, b).size <= MOST
        except ValueError:
            return False

    partners = [name for name, b in d.values.items() if fits(b)]
    if x.ndim >= 2 and (not partners or d.draw(st.booleans())):
        d.emit(f"{a} @ {a}.mT * 0.25", f"np.einsum('...ij,...kj->...ik', {a}, {a}) * 0.25", [a])
    else:
        b = d.choose(partners)
        d.emit(f"0.25 * ({a} @ {b})", f"0.25 * np.matmul({a}, {b})", [a, b])


@kind
def row_dots(d: Draft) -> None:
    """The dot product of each row with that of another array whose rows are as long."""
    a = d.operand(lambda a: a.ndim)
    x = d.values[a]

    def fits(b: np.ndarray) -> bool:
        try:
            return bool(b.ndim) and b.shape[-1] == x.shape[-1] and np.broadcast(x, b).size <= MOST
        except ValueError:
            return False

    b = d.choose([name for name, b in d.values.items() if fits(b)])
    d.emit(f"0.25 * np.vecdot({a}, {b})", f"0.25 * np.sum({a} * {b}, axis=-1)", [a, b])


@kind
def einsum(d: Draft) -> None:
    """A random equation of one or two operands: labels shared, repeated, summed or kept."""
    a = d.operand(lambda a: a.ndim)
    names = [a] if d.draw(st.booleans()) else [a, d.operand(lambda a: a.ndim)]
    sizes: dict[str, int] = {}
    terms = []
    for name in names:
        term = ""
        for n in d.values[name].shape:
            label = d.choose([*[k for k, size in sizes.items() if size == n], "ijklmnopqr"[len(sizes)]])
            sizes[label] = n
            term += label
        terms.append(term)
    used = sorted(set("".join(terms)))
    output = "".join(d.draw(st.permutations(used))[: d.draw(st.integers(0, len(used)))])
    equation = f"{','.join(terms)}->{output}"
    operands = ", ".join(names)
    d.emit(f"mg.einsum('{equation}', {operands})", f"np.einsum('{equation}', {operands}) + 0.0", names)
