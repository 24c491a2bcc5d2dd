"""einsum beyond its gradient: what an equation leaves out, operands without dimensions, and what does not fit."""

import numpy as np
import pytest
from strategies import two_sided
from tensors import leaf

import minigrad as mg


@pytest.mark.parametrize(
    "row",
    [
        ("ij,jk", (2, 3), (3, 4)),
        ("ba", (2, 3)),
        ("ii", (3, 3)),
        ("...ij,jk", (2, 2, 3), (3, 4)),
        ("...i->...", (3,)),
        ("...,...", (2,), (3, 2)),
        ("i...,...", (2, 3), (3,)),
        ("i,i", (3,), (3,)),
    ],
    ids=str,
)
def test_einsum_with_what_the_equation_leaves_out(row, rng):
    """Without an arrow the labels that occur once are kept, in alphabetical order, after the ellipsis."""
    equation, *shapes = row
    arrays = [two_sided(rng, shape) for shape in shapes]
    expected = np.einsum(equation, *arrays)
    np.testing.assert_allclose(mg.einsum(equation, *map(mg.from_numpy, arrays)).numpy(), expected, rtol=1e-14)


def test_einsum_of_a_number():
    """An operand without dimensions, as a constant cotangent is one in the second derivative of i,i->."""
    x = leaf([0.5, -2.0])
    (first,) = mg.autograd.grad(mg.einsum("i,i->", x, x), x, create_graph=True)
    (second,) = mg.autograd.grad(first, x, mg.tensor([1.0, 10.0]).double())
    assert second.tolist() == [2.0, 20.0]


def test_einsum_of_more_dimensions_than_half_the_alphabet():
    """There are 52 labels; a gradient needs a second one only for a label that its operand has twice."""
    labels = "abcdefghijklmnopqrstuvwxyzABCD"
    x, y = leaf(np.full((1,) * 29 + (2,), 3.0)), leaf(np.full((1,) * 30, 5.0))
    found = mg.autograd.grad(mg.einsum(f"{labels},{labels}->", x, y), [x, y])
    assert [g.shape for g in found] == [x.shape, y.shape]
    assert [g.sum().item() for g in found] == [10, 6]


@pytest.mark.parametrize(
    ("equation", "shapes", "says"),
    [
        ("ij,jk->ik", [(2, 3)], "names 2 operands, but 1 were given"),
        ("ijk->i", [(2, 3)], "'ijk' of .* doesn't fit an operand of 2 dimensions"),
        ("...ijk->i", [(2, 3)], "doesn't fit an operand of 2 dimensions"),
        ("i->i", [(2, 3)], "'i' of .* doesn't fit an operand of 2 dimensions"),
    ],
)
def test_einsum_names_the_operand_that_does_not_fit(equation, shapes, says):
    with pytest.raises(RuntimeError, match=says):
        mg.einsum(equation, *[mg.ones(*shape) for shape in shapes])
