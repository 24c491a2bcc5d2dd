"""The graph of a tensor as a picture (text in a terminal, SVG in a notebook), and backpropagation as a story."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from minigrad.tensor import Tensor, start_of_backward

# What draws is loaded when something is drawn: it is a fifth of the time that importing minigrad would take.
if TYPE_CHECKING:
    from minigrad.draw.drawing import Drawing
    from minigrad.draw.names import Names
    from minigrad.draw.story import Story


def draw(
    tensor: Tensor,
    names: Mapping[str, Any] | Iterable[tuple[str, Any]] = (),
    *,
    gradient: Tensor | None = None,
    most: int = 200,
    depth: int | None = None,
    open: str | Sequence[str] = (),
) -> Drawing:
    """Return a picture of how ``tensor`` was computed, with values and gradients.

    >>> import minigrad as mg
    >>> w = mg.tensor([1.0, -2.0], requires_grad=True)
    >>> loss = (w * w).sum()
    >>> mg.draw(loss)
                     shape  value    gradient
    loss = sum       ()     5        1
    └─ mul           (2,)   [1, 4]   [1, 1]
       ├─ w #1       (2,)   [1, -2]  [2, -4]
       └─ w #1 (above)

    In a notebook it is drawn, and pointing at a card shows the rule of its operation and more of its numbers;
    ``draw(loss).save("graph.svg")`` writes the picture to a file.

    Names are those of your variables, and of the parameters of the modules that were called.  Gradients are those
    of ``tensor``: they are computed for the picture, which leaves the graph and every ``grad`` as they were.
    Values are shown where they can still be known; inside ``with mg.autograd.keep_values():`` all of them can,
    also after a backward pass.  An operation on constants alone is not recorded, and so not drawn.

    Args:
        tensor: the output.
        names: further names, which go before those of variables: a dict, or ``model.named_parameters()``.
        gradient: the gradient of ``tensor``, of its shape; one of a single element needs none: it is 1.
        most: how many cards are drawn at most, those nearest the output; a notice says if there are more.
        depth: how many modules within one another are opened.  Without it, a graph of more than 16 cards is folded
            to a card for each module, as little as is needed.
        open: the dotted names of modules to open, whatever else is folded: "blocks.0.attention".

    Returns:
        A drawing: its ``str`` is the text, its ``svg`` the picture.

    Raises:
        RuntimeError: ``gradient`` has another shape than ``tensor``.
    """
    from minigrad.draw.drawing import Drawing
    from minigrad.draw.picture import Picture

    opened = (open,) if isinstance(open, str) else tuple(open)
    return Drawing(Picture(tensor, names_for(names), gradient, most, depth, opened))


def explain_backward(
    tensor: Tensor,
    names: Mapping[str, Any] | Iterable[tuple[str, Any]] = (),
    *,
    gradient: Tensor | None = None,
    most: int = 100,
) -> Story:
    """Tell the backward pass of ``tensor`` as a numbered story, with the numbers.

    >>> import minigrad as mg
    >>> w, b = mg.tensor(3.0, requires_grad=True), mg.tensor(-6.0, requires_grad=True)
    >>> y = (2 * w + b) * w
    >>> mg.explain_backward(y)
    y and its gradients, in 3 steps back from the result
    <BLANKLINE>
    Forward
      t1 = 2 * w = 6
      t2 = t1 + b = 0
      y = t2 * w = 0
    <BLANKLINE>
    Backward: what arrives at a step is g, the gradient of y with respect to its result, out.
    In a rule, x and y are the step's inputs.  It starts with 1, of y itself.
    <BLANKLINE>
    1. y = t2 * w
       g = 1
       to t2  g * y = 1 * 3 = 3
       to w   g * x = 1 * 0 = 0
    <BLANKLINE>
    2. t2 = t1 + b
       g = 3
       to t1  g = 3
       to b   g = 3
    <BLANKLINE>
    3. t1 = 2 * w
       g = 3
       to w  g * x = 3 * 2 = 6
             w was used more than once: added to 0 from step 1, that makes 6
    <BLANKLINE>
    What has arrived at the leaves
      w  6  from steps 1 and 3
      b  3  from step 2

    The rules are those of the engine, word for word.  As :func:`draw`, it changes nothing.

    Args:
        tensor: the output.
        names: as for :func:`draw`.
        gradient: the gradient of ``tensor``, of its shape; one of a single element needs none: it is 1.
        most: how many steps are told.

    Returns:
        A story: its ``str`` is the text, its ``steps`` are the same with every array.

    Raises:
        RuntimeError: as :meth:`minigrad.Tensor.backward`, or a value that a rule needs was freed or overwritten.
    """
    from minigrad.draw.picture import Picture
    from minigrad.draw.story import Story

    start_of_backward([tensor], [gradient], False)
    picture = Picture(tensor, names_for(names), gradient)
    if not picture.steps and not tensor.is_leaf:
        raise RuntimeError(picture.notices[0])
    return Story(picture, most)


def names_for(names: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> Names:
    """Return what the caller of this function's caller calls things."""
    from minigrad.draw.names import Names, variables_of

    frame = inspect.currentframe()
    caller = frame.f_back.f_back if frame is not None and frame.f_back is not None else None
    return Names(names, variables_of(caller))
