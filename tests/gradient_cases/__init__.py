"""Where a new operation's tests come from: how to draw its arguments, by topic as in ``minigrad/rules``.

An elementwise operation has a case by its declaration alone.  Any other needs a line in ``CASES`` of its topic: a
strategy that draws a :class:`~gradient_cases.problem.Problem`.  What must hold of all is in ``test_gradients.py``.
"""

from . import elementwise, indexing, kernels, linalg, reductions, shapes

CASES = {
    **elementwise.CASES,
    **reductions.CASES,
    **linalg.CASES,
    **shapes.CASES,
    **indexing.CASES,
    **kernels.CASES,
}
