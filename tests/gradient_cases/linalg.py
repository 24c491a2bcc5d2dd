"""How to draw arguments of products of vectors, matrices and tensors."""

import numpy as np
from hypothesis import strategies as st
from strategies import array_of

import minigrad as mg

from .problem import Problem

MATMUL_SHAPES = [
    ((3,), (3,)),
    ((3,), (3, 2)),
    ((2, 3), (3,)),
    ((2, 3), (3, 2)),
    ((3,), (2, 3, 2)),
    ((2, 2, 3), (3,)),
    ((2, 1, 3), (3, 2)),
    ((2, 3), (2, 3, 1)),
    ((2, 2, 3), (2, 3, 2)),
    ((1, 2, 3), (2, 3, 1)),
    ((2, 1, 2, 2), (1, 2, 2, 2)),
    ((2, 2, 1, 2), (2, 2, 2)),
    ((1,), (1, 1)),
    ((2, 0), (0, 3)),
    ((0, 2), (2, 3)),
    ((2, 2, 0), (0, 3)),
    ((0, 2, 3), (3, 1)),
    ((2, 3), (3, 0)),
    ((0,), (0,)),
]


@st.composite
def products(draw, *forms, pairs=MATMUL_SHAPES):
    """Matrix products of every rank, with batches that broadcast and sizes of 0."""
    x_shape, y_shape = draw(st.sampled_from(pairs))
    x, y = draw(array_of(x_shape)), draw(array_of(y_shape))
    form = draw(st.sampled_from(forms))
    match draw(st.sampled_from(["both", "both", "x", "y"])):
        case "both":
            return Problem(form, [x, y])
        case "x":
            return Problem(form, [x], [y])
        case _:
            return Problem(lambda y, x: form(x, y), [y], [x])


EINSUMS = [
    ("ij,jk->ik", (2, 3), (3, 2)),
    ("ij,jk", (2, 3), (3, 2)),  # no output: the labels that occur once
    ("ba,cb", (2, 3), (2, 2)),
    ("ii->i", (3, 3)),
    ("ii", (3, 3)),
    ("ii->", (3, 3)),
    ("iij->ji", (2, 2, 3)),
    ("iii->i", (2, 2, 2)),
    ("ij->", (2, 3)),
    ("ij->j", (2, 3)),
    ("ij->ji", (2, 3)),
    ("i->i", (3,)),
    ("...ij,...jk->...ik", (2, 2, 3), (2, 3, 2)),
    ("...ij,...jk->...ik", (2, 1, 1, 2), (2, 2, 1)),
    ("...i,...i", (2, 3), (3,)),
    ("...i->...", (2, 3)),
    ("i...,i->...", (2, 3), (2,)),
    ("bhtd,bhsd->bhts", (1, 2, 2, 2), (1, 2, 3, 2)),
    ("i,i,i->i", (3,), (3,), (3,)),
    ("ij,jk,kl->il", (2, 2), (2, 3), (3, 2)),
    ("ij,j,i->", (2, 3), (3,), (2,)),
    ("i,j->ij", (2,), (3,)),
    ("i,j->", (2,), (3,)),
    ("ii,i->i", (3, 3), (3,)),
    ("i,i->", (3,), (1,)),  # sizes of 1 broadcast
    ("ij,ij->i", (2, 1), (2, 3)),
    ("ij,jk->ik", (2, 1), (3, 2)),
    (",i->i", (), (3,)),
    (" i j , j -> i ", (2, 3), (3,)),
    ("ij,jk->ik", (2, 0), (0, 3)),
    ("Ab,bA->A", (2, 3), (3, 2)),
]


@st.composite
def einsums(draw):
    """The equations above, also in NumPy's name and with the operands in a list."""
    equation, *operand_shapes = draw(st.sampled_from(EINSUMS))
    arrays = [draw(array_of(shape)) for shape in operand_shapes]
    form = draw(st.sampled_from([mg.einsum, np.einsum, lambda equation, *xs: mg.einsum(equation, list(xs))]))
    return Problem(lambda *xs: form(equation, *xs), arrays)


CASES = {
    "matmul": products(
        lambda x, y: x @ y,
        mg.matmul,
        np.matmul,
        lambda x, y: x.matmul(y) if isinstance(x, mg.Tensor) else x @ y,
    ),
    "bmm": products(mg.bmm, pairs=[((2, 2, 3), (2, 3, 2)), ((1, 2, 1), (1, 1, 3)), ((2, 2, 0), (2, 0, 2))]),
    "dot": products(mg.dot, pairs=[((3,), (3,)), ((1,), (1,)), ((0,), (0,))]),
    "vecdot": products(
        lambda x, y: np.vecdot(x, y),
        pairs=[
            ((3,), (3,)),
            ((2, 3), (3,)),
            ((2, 1, 3), (4, 3)),
            ((1,), (2, 1)),
            ((2, 0), (0,)),
            ((0, 2), (1, 2)),
        ],
    ),
    "outer": products(mg.outer, pairs=[((3,), (2,)), ((1,), (4,)), ((0,), (2,))]),
    "einsum": einsums(),
}
