"""Random programs: a few lines of straight code on a few tensors, of which the gradient is known otherwise.

A :class:`Program` is text.  Each of its steps is one line of minigrad and, beside it, one line of plain NumPy that
means the same and knows nothing of minigrad:

    v0 = mg.tanh(x0)            v0 = np.asarray(np.tanh(x0))
    v1 = v0[1:]                 v1 = np.asarray(v0[1:])
    v1 *= x1                    v1[...] = v1 * x1

The lines are drawn by Hypothesis, one after the other, each with a look at the shapes and values so far: operands
fit, stay inside the domain of the function and off its kinks by a margin, and results stay of moderate size.  That
is decided once, on the leaves' own values, and what is decided is the text; so every evaluation of a program, at
whatever other values, carries out the same steps.  What a kink would still change (which of two numbers is larger,
in which order they are sorted) the NumPy lines report through ``branch``, so that a difference that stepped over
one is noticed and not compared.

A program and its two ways to run are in ``program``, what the NumPy lines call in ``meanings``, what a step is
drawn from in ``draft``, a whole one in ``drawing``.  Each ``@kind`` of step stands in the file of its topic, as
operations do in ``minigrad/rules``; an elementwise operation has one by its declaration (``declared``).

:meth:`Program.source` is the program as a script that can be run by itself: what a failing test prints.
"""

# Each of these adds its kinds of steps.
from . import declared, elementwise, in_place, indexing, kernels, linalg, reductions, shapes  # noqa: F401
from .drawing import numbers, programs
from .program import Leaf, Program, Step, another_order

__all__ = ["Leaf", "Program", "Step", "another_order", "numbers", "programs"]
