"""Products of matrices and their rules."""

from __future__ import annotations

import math
import string
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from minigrad.graph import Array
from minigrad.op import kernel, op
from minigrad.rules.reduce import normalize_dims

if TYPE_CHECKING:
    from minigrad.tensor import Tensor


def _matmul_gradient_of_x(g: Array, x_shape: tuple[int, ...], y: Array) -> Array:
    """∂(x y)/∂x applied to g: g yᵀ.  A vector y stands for a column, a vector x for a row."""
    if y.ndim == 1:
        return np.expand_dims(g, -1) * y
    if len(x_shape) == 1:
        return np.squeeze(y @ np.expand_dims(g, -1), -1)
    return g @ y.mT


def _matmul_gradient_of_y(g: Array, x: Array, y_shape: tuple[int, ...]) -> Array:
    """∂(x y)/∂y applied to g: xᵀ g."""
    if x.ndim == 1:
        return np.expand_dims(x, -1) * np.expand_dims(g, -2) if len(y_shape) > 1 else x * g
    if len(y_shape) == 1:
        return np.squeeze(x.mT @ np.expand_dims(g, -1), -1)
    if len(y_shape) == 2 and x.ndim > 2:
        # One weight for a batch of rows: one large product instead of many small ones and their sum.
        rows = math.prod(x.shape[:-1])  # not −1, which is undefined where another size is 0
        return np.reshape(x, (rows, x.shape[-1])).mT @ np.reshape(g, (rows, g.shape[-1]))
    return x.mT @ g


@op(numpy=np.matmul, promote="common", x=_matmul_gradient_of_x, y=_matmul_gradient_of_y)
def matmul(x: Array, y: Array) -> Array:
    """x @ y: the matrix product of the last two dimensions; the others broadcast.  (…, n, k) @ (…, k, m).

    A one-dimensional x counts as a row and a one-dimensional y as a column, and that dimension is dropped.
    """
    return np.matmul(x, y)


@op(
    numpy=np.vecdot,
    promote="common",
    x=lambda g, y: np.expand_dims(g, -1) * y,
    y=lambda g, x: np.expand_dims(g, -1) * x,
)
def vecdot(x: Array, y: Array) -> Array:
    """Σᵢ xᵢ yᵢ over the last dimension: the dot product of each row of x with that of y; the others broadcast.

    Raises:
        RuntimeError: the last dimensions differ.
    """
    return np.vecdot(x, y)


def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """The matrix products of two batches: (b, n, k) and (b, k, m) to (b, n, m).

    Raises:
        RuntimeError: the shapes are not of that form.
    """
    if input.ndim != 3 or mat2.ndim != 3 or input.shape[0] != mat2.shape[0] or input.shape[2] != mat2.shape[1]:
        raise RuntimeError(f"bmm() needs shapes (b, n, k) and (b, k, m), not {input.shape} and {mat2.shape}")
    return matmul(input, mat2)


def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """The product of two matrices: (n, k) and (k, m) to (n, m).

    Raises:
        RuntimeError: an operand is no matrix, or the shapes don't fit.
    """
    if input.ndim != 2 or mat2.ndim != 2:
        raise RuntimeError(
            f"mm() needs two matrices, not shapes {input.shape} and {mat2.shape}; use matmul() or @"
        )
    return matmul(input, mat2)


def mv(input: Tensor, vec: Tensor) -> Tensor:
    """The product of a matrix and a vector: (n, k) and (k,) to (n,).

    Raises:
        RuntimeError: they are none, or the shapes don't fit.
    """
    if input.ndim != 2 or vec.ndim != 1:
        raise RuntimeError(f"mv() needs a matrix and a vector, not shapes {input.shape} and {vec.shape}")
    return matmul(input, vec)


def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """The outer product of two vectors: (n,) and (m,) to (n, m)."""
    return input.unsqueeze(-1) * vec2


def dot(input: Tensor, tensor: Tensor) -> Tensor:
    """The inner product of two vectors, a 0-d tensor.

    Raises:
        RuntimeError: an operand is no vector, or their lengths differ.
    """
    if input.ndim != 1 or tensor.ndim != 1:
        raise RuntimeError(f"dot() needs two vectors, not shapes {input.shape} and {tensor.shape}")
    return matmul(input, tensor)


def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """Sum over pairs of dimensions: the last ``dims`` of a with the first of b, or the two lists in ``dims``.

    Raises:
        RuntimeError: the dimensions of a pair differ in size.
    """
    if isinstance(dims, int):
        ours, theirs = tuple(range(a.ndim - dims, a.ndim)), tuple(range(dims))
    else:
        ours, theirs = normalize_dims(dims[0], a.ndim), normalize_dims(dims[1], b.ndim)
    if [a.shape[d] for d in ours] != [b.shape[d] for d in theirs]:
        raise RuntimeError(f"tensordot() can't pair dimensions {ours} of {a.shape} with {theirs} of {b.shape}")
    left = [d for d in range(a.ndim) if d not in ours]
    right = [d for d in range(b.ndim) if d not in theirs]
    n, m, k = (
        math.prod(sizes)
        for sizes in ([a.shape[d] for d in left], [b.shape[d] for d in right], [a.shape[d] for d in ours])
    )
    product = a.permute(*left, *ours).reshape(n, k) @ b.permute(*theirs, *right).reshape(k, m)
    return product.reshape([a.shape[d] for d in left] + [b.shape[d] for d in right])


def kron(input: Tensor, other: Tensor) -> Tensor:
    """The Kronecker product: every element of ``input`` times all of ``other``, in blocks."""
    ndim = max(input.ndim, other.ndim)
    a, b = ((1,) * (ndim - z.ndim) + z.shape for z in (input, other))
    apart = input.reshape([n for size in a for n in (size, 1)]) * other.reshape(
        [n for size in b for n in (1, size)]
    )
    return apart.reshape([n * m for n, m in zip(a, b, strict=True)])


def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta · input + alpha · mat1 @ mat2, for matrices; ``input`` broadcasts.

    Raises:
        RuntimeError: mat1 or mat2 is no matrix.
    """
    if mat1.ndim != 2 or mat2.ndim != 2:
        raise RuntimeError(f"addmm() needs two matrices, not shapes {mat1.shape} and {mat2.shape}")
    return _plus_product(input, matmul(mat1, mat2), beta, alpha)


def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta · input + alpha · batch1 @ batch2, for batches of matrices; ``input`` broadcasts.

    Raises:
        RuntimeError: the shapes are not of that form.
    """
    return _plus_product(input, bmm(batch1, batch2), beta, alpha)


def _plus_product(input: Tensor, product: Tensor, beta: float, alpha: float) -> Tensor:
    """Return beta · input + alpha · product; with beta = 0 ``input`` does not count, whatever is in it."""
    scaled = product if alpha == 1 else product * alpha
    return scaled if beta == 0 else (input if beta == 1 else input * beta) + scaled


# --- einsum ---------------------------------------------------------------------------------------


def parse_einsum(equation: str, ndims: Sequence[int]) -> tuple[list[str], str]:
    """Return one label for each dimension of each operand, and of the output, with ``...`` spelled out.

    >>> parse_einsum("...ij,jk", [3, 2])
    (['Zij', 'jk'], 'Zik')

    Raises:
        ValueError: the equation doesn't fit the operands.
    """
    left, arrow, output = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ndims):
        raise ValueError(f"'{equation}' names {len(terms)} operands, but {len(ndims)} were given")
    free = [letter for letter in reversed(string.ascii_letters) if letter not in equation]
    widest = 0
    labels = []
    for term, ndim in zip(terms, ndims, strict=True):
        named = term.replace("...", "")
        hidden = ndim - len(named)
        if hidden < 0 or ("..." not in term and hidden > 0):
            raise ValueError(f"'{term}' of '{equation}' doesn't fit an operand of {ndim} dimensions")
        widest = max(widest, hidden)
        labels.append(term.replace("...", "".join(reversed(free[:hidden]))))
    ellipsis = "".join(reversed(free[:widest]))
    if not arrow:  # the labels that occur once, in alphabetical order, after the dimensions of the ellipsis
        counts = Counter(left.replace(".", "").replace(",", ""))
        output = "..." * ("..." in left) + "".join(sorted(label for label, n in counts.items() if n == 1))
    return labels, output.replace("...", ellipsis)


def _einsum_backward(
    g: Array, operands: Sequence[Array], operands_shape: Sequence[tuple[int, ...]], equation: str
) -> list[Array]:
    """The gradient of an operand is an einsum too: of g and the other operands, with that operand's labels.

    Two cases need a helping factor.  A label that only this operand has was summed over, so the gradient is the
    same along it: a factor of ones.  A label that this operand has twice picked its diagonal, so the gradient is
    zero off it: an identity matrix.
    """
    labels, output = parse_einsum(equation, [len(shape) for shape in operands_shape])
    gradients = []
    for i, (own, shape) in enumerate(zip(labels, operands_shape, strict=True)):
        terms, factors = [output], [g]
        known = set(output)  # the labels that the factors have in their full size
        for j, operand in enumerate(operands):
            if j != i:
                terms.append(labels[j])
                factors.append(operand)
                known.update(label for label, n in zip(labels[j], operands_shape[j], strict=True) if n != 1)
        free = [letter for letter in string.ascii_letters if letter not in "".join([output, *labels])]
        result = ""
        for label, n in zip(own, shape, strict=True):
            if label in result:
                twin = free.pop()
                terms.append(label + twin)
                factors.append(np.eye(n, dtype=g.dtype))
                result += twin
            else:
                if label not in known:
                    terms.append(label)
                    factors.append(np.ones(n, dtype=g.dtype))
                result += label
        gradients.append(np.einsum(f"{','.join(terms)}->{result}", *factors, optimize=True))
    return gradients


@kernel(_einsum_backward, ["operands"], promote="common")
def _einsum(*operands: Array, equation: str) -> Array:
    """Sums of products over named dimensions (Einstein's convention)."""
    labels, output = parse_einsum(equation, [operand.ndim for operand in operands])
    result: Array = np.einsum(f"{','.join(labels)}->{output}", *operands, optimize=True)
    return result if result.base is None else result.copy()  # of one operand, NumPy may return a view


def einsum(equation: str, *operands: Any, optimize: Any = None) -> Tensor:
    """Sums of products over named dimensions (Einstein's convention).

    >>> import minigrad as mg
    >>> x, y = mg.ones(2, 3), mg.ones(3, 4)
    >>> mg.einsum("ij,jk->ik", x, y).shape
    (2, 4)

    A label in no output is summed over; one that an operand has twice picks its diagonal; ``...`` stands for
    dimensions that broadcast.  ``optimize`` is accepted for NumPy's sake: the order of products is always chosen.

    Raises:
        RuntimeError: the equation doesn't fit the operands.
    """
    if len(operands) == 1 and isinstance(operands[0], list | tuple):
        operands = tuple(operands[0])
    return _einsum(*operands, equation=equation)
