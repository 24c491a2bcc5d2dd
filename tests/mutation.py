"""Mutation testing of the derivatives: break every rule in every small way, and see the test suite notice.

    python tests/mutation.py                         all mutants, a table in mutants.md
    python tests/mutation.py --only linalg --jobs 2  those of one file
    python tests/mutation.py --again mutants.md      all, each first by the test that killed it before: quicker
    python tests/mutation.py --list                  only say what would be changed
    python tests/mutation.py --doubt                 run those called harmless: a test that fails refutes one
    python tests/mutation.py --judged                print the table JUDGED for the code as it is

A *mutant* is the engine with one small mistake in it: a sign flipped, a term or factor dropped, a product become
a sum, two saved values swapped, a comparison < become ≤, the cotangent ignored, a gradient written where it should
be added, …  If some test fails, the mutant is *killed*.  One that survives is a mistake that nobody would notice:
the suite is then to be made stronger, or the change makes no difference, and :data:`HARMLESS` says why.

*No difference* means: equal numbers, up to rounding, and the same errors, whatever the inputs (also of size 0, of
another dtype, infinite or NaN) and at every order, for cotangents that are finite.  Time, memory and the sign of
a zero may differ.  Such a judgement is about the code that was read, so :data:`JUDGED` holds a digest of each
function that has one.  Where the function has changed since, its harmless changes are run like any others and the
function is reported as stale, as is every entry of the tables below that no longer finds what it names.

How it is done: the package and the tests are copied, imported and collected once.  One run of all tests notes
which of them execute which function: only those can notice a change there.  Then, for each mutant, the process
forks; the child puts the mutated code into the living function (``function.__code__``) and runs those tests until
one fails.  First of all a child runs every test with nothing changed: a failure there would prove nothing, so such
a test is left out.  It forks, so it is for POSIX systems; the project itself runs anywhere.
"""

import argparse
import ast
import cProfile
import functools
import gc
import hashlib
import itertools
import os
import shutil
import signal
import sys
import tempfile
import time
import types
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # threads don't survive a fork

ROOT = Path(__file__).resolve().parent.parent

# What is mutated: the rules and backward passes in these files, with the helpers that they call …
RULES = ["minigrad/rules/*.py", "minigrad/kernels/*.py"]
# … and these functions of the engine.
ENGINE = {
    "minigrad/graph.py": [
        "sum_to", "backward_pass", "_collect_output", "apart", "leading_to", "modified_since", "refresh", "replay",
        "pick",
    ],
    "minigrad/inplace.py": [
        "owner", "positions", "check_writable", "replace", "keep_old_value", "assign", "record_overwrite",
    ],
    "minigrad/op.py": [
        "pullback", "pullback_as_tensors", "restore", "differentiate_composed", "make_plan", "positions",
        "bind_wanted", "of_pair", "several_results",
    ],
    "minigrad/plan.py": ["plan_for", "write_out_recording", "write_out_rules", "write_out_check"],
    "minigrad/function.py": ["call", "pullback", "pullback_as_tensors", "_keep", "saved_tensors", "place"],
    "minigrad/tensor.py": ["accumulate", "start_of_backward", "detach"],
}  # fmt: skip

# … and these forward functions, which compute a derivative along with the value.
ALONG = {
    "minigrad/kernels/activation.py": ["gelu", "tanh_cdf_and_slope"],
    "minigrad/special.py": ["normal_cdf_and_density"],
}

# The tests that are to notice, in this order.
TESTS = [
    "gradients", "fused", "survivors", "field_cases", "numpy", "inplace", "func", "graph", "extend", "programs",
]  # fmt: skip

# Of the random programs, those that differ in what they execute.
PROGRAMS = ["complex_steps", "adjoint", "repeatable"]

PART = "isinstance(part, int | slice | np.integer)"
SCALE = "np.where(kept, g / max(np.count_nonzero(kept), 1) if reduction == 'mean' else g, 0)"
DTYPES = "gradient.dtype is not like.dtype and gradient.dtype != like.dtype"
KNOWN = "(label for label, n in zip(labels[j], operands_shape[j], strict=True) if n != 1)"

# Changes that change no result, by the reason why: {reason: [(file, function, "before → after"), …]}.
HARMLESS: dict[str, list[tuple[str, str, str]]] = {
    "at a tie the other argument of where() decides": [
        ("rules/elementwise.py", "maximum, rule of x", "x > y → x >= y"),
        ("rules/elementwise.py", "maximum, rule of y", "y > x → y >= x"),
        ("rules/elementwise.py", "minimum, rule of x", "x < y → x <= y"),
        ("rules/elementwise.py", "minimum, rule of y", "y < x → y <= x"),
    ],
    "a number that an outer where() discards, chosen so that nothing infinite comes of it": [
        ("rules/elementwise.py", "pow_gradient_of_x", "in np.where(flat, 1, x): 1 → 2"),
        ("rules/elementwise.py", "_over_squared_distance", "in np.where(squared == 0, 1, squared): 1 → 2"),
        ("rules/reduce.py", "_std_gradient", "in np.where(out == 0, 1, out): 1 → 2"),
        ("rules/reduce.py", "_norm_gradient", "in np.where(out == 0, 1, out): 1 → 2"),
    ],
    "an ellipsis that stands for no dimension is empty": [
        ("rules/linalg.py", "parse_einsum", "'...' * ('...' in left) → '...'"),
    ],
    "an index counts as not basic, and takes the slower path to the same result": [
        *(
            (
                "rules/indexing.py",
                "is_basic",
                f"part is None or part is Ellipsis or ({PART} and (not isinstance(part, bool))) → {changed}",
            )
            for changed in (
                f"part is None and part is Ellipsis and ({PART} and (not isinstance(part, bool)))",
                f"part is Ellipsis or ({PART} and (not isinstance(part, bool)))",
                f"part is None or ({PART} and (not isinstance(part, bool)))",
                "part is None or part is Ellipsis",
            )
        ),
        ("rules/indexing.py", "is_basic", "not isinstance(part, bool) → isinstance(part, bool)"),
        ("rules/indexing.py", "is_basic", "index if isinstance(index, tuple) else (index,) → (index,)"),
        ("rules/indexing.py", "place", "if is_basic(index): → if False:"),
        (
            "rules/indexing.py",
            "place",
            "if isinstance(index, np.ndarray) and index.dtype.kind in 'iu' and result.size: → if False:",
        ),
    ],
    "x[True] and x[False] name no element twice either": [
        ("rules/indexing.py", "is_basic", f"{PART} and (not isinstance(part, bool)) → {PART}"),
    ],
    "e^(−∞ − c) is 0 for any c": [
        ("rules/reduce.py", "_softmax_below", "in np.where(out == -np.inf, 0, out): 0 → 1"),
        ("rules/reduce.py", "_softmax_below", "in np.where(out == -np.inf, 0, out): 0 → -1"),
    ],
    "the slow way to the same": [
        (
            "rules/elementwise.py",
            "masked",
            "if isinstance(product, np.ndarray) and np.isfinite(np.add.reduce(product, axis=None)): → if False:",
        ),
    ],
    "it is 0 throughout": [
        ("rules/elementwise.py", "no_gradient", "masked(g, False) → -masked(g, False)"),
        ("rules/elementwise.py", "no_gradient", "masked(g, False) → 0.5 * masked(g, False)"),
    ],
    "an exchange is its own inverse, in either order": [
        ("rules/shape.py", "transpose, rule of x", "dim0 ↔ dim1"),
    ],
    "all rows have the same size": [
        ("rules/indexing.py", "place", "in result[0]: 0 → -1"),
    ],
    "one large product, or many small ones that the engine sums: the same sum": [
        ("rules/linalg.py", "_matmul_gradient_of_y", change)
        for change in (
            "if len(y_shape) == 2 and x.ndim > 2: → if False:",
            "len(y_shape) == 2 and x.ndim > 2 → len(y_shape) == 2",
            "x.ndim > 2 → x.ndim >= 2",
            "in x.ndim > 2: 2 → 3",
            "in x.ndim > 2: 2 → 1",
            "in len(y_shape) == 2: 2 → 1",
        )
    ],
    "of a vector, the dimensions after −1 and after 1 are the same": [
        ("rules/linalg.py", "_matmul_gradient_of_y", "-1 → 1  (6)"),
    ],
    "another factor of ones: slower, and the same sum": [
        ("rules/linalg.py", "_einsum_backward", change)
        for change in (
            "if label not in known: → if True:",
            f"known.update({KNOWN}) → pass",
        )
    ],
    "there is an operand, and it has no less than 0 hidden dimensions": [
        ("rules/linalg.py", "parse_einsum", "in widest = 0: 0 → -1"),
    ],
    "the sum over no dimension, or over one of size 1, is the array itself": [
        (
            "graph.py",
            "sum_to",
            "np.reshape(np.sum(gradient, axis=dims), shape) if dims else np.reshape(gradient, shape) "
            "→ np.reshape(np.sum(gradient, axis=dims), shape)",
        ),
        ("graph.py", "sum_to", "n == 1 and gradient.shape[extra + i] != 1 → n == 1"),
    ],
    "one array more is made, or a copy of one: the same values, in memory of their own": [
        ("graph.py", "backward_pass", change)
        for change in (
            "gradient if parent in owned and isinstance(gradient, np.ndarray) else np.array(gradient) "
            "→ np.array(gradient)",
            "if gradient.shape != like.shape: → if True:",
            "if gradient.dtype is not like.dtype and gradient.dtype != like.dtype: → if True:",
            "if fresh: → if False:",
            "if parent in owned and type(gradient) is np.ndarray: → if False:",
            "owned.add if type(pending[parent]) is np.ndarray else owned.discard → owned.discard",
            "owned.add(parent) → pass",
            f"{DTYPES} → gradient.dtype is not like.dtype or gradient.dtype != like.dtype",
            f"{DTYPES} → gradient.dtype != like.dtype",
            f"{DTYPES} → gradient.dtype is not like.dtype",
        )
    ],
    "a tensor's shape and dtype are those of its array": [
        ("graph.py", "backward_pass", "parent if type(parent) is Node else parent._data → parent"),
    ],
    "the operation that makes the view anew looks after its argument itself": [
        ("graph.py", "refresh", "view.base.refresh() → pass"),
    ],
    "any other number would do: what counts is that it differs": [
        ("inplace.py", "replace", "in tensor._version[1] += 1: 1 → 2"),
        ("inplace.py", "record_overwrite", "in base._version[1] += 1: 1 → 2"),
        ("tensor.py", "accumulate", "in leaf.grad._version[0] += 1: 1 → 2"),
    ],
    "a node that was made just now has not been freed": [
        ("inplace.py", "keep_old_value", "node is None or node.saved is None → node is None"),
    ],
    "positions that are not used are computed": [
        ("inplace.py", "assign", "positions(tensor)[index] if recorded else None → positions(tensor)[index]"),
    ],
    "reshaped to the shape that it has, or the engine brings the gradient to its shape": [
        ("inplace.py", "record_overwrite", "len(value.shape) > at.ndim → len(value.shape) >= at.ndim"),
        ("inplace.py", "record_overwrite", "len(value.shape) - at.ndim → -at.ndim"),
    ],
    "what is owned is an array, and so is what is added to it, or a scalar": [
        ("graph.py", "backward_pass", "parent in owned and isinstance(gradient, np.ndarray) → parent in owned"),
    ],
    "what is computed besides is not returned": [
        ("kernels/attention.py", "_attention_backward", "if dquery is None and dkey is None: → if False:"),
        ("kernels/attention.py", "_attention_backward", "continue → pass"),
    ],
    "another layout in memory, of the same numbers": [
        ("kernels/attention.py", "heads_inside", "if len(shape) < 3: → if True:"),
        ("kernels/attention.py", "heads_inside", "len(shape) < 3 → len(shape) <= 3"),
        ("kernels/attention.py", "heads_inside", "in len(shape) < 3: 3 → 4"),
    ],
    "every range of keys begins at 0, so that it leaves one of one": [
        ("kernels/attention.py", "part_of", "if mask.shape[-1] > 1: → if True:"),
        ("kernels/attention.py", "part_of", "mask.shape[-1] > 1 → mask.shape[-1] >= 1"),
        ("kernels/attention.py", "part_of", "in mask.shape[-1] > 1: 1 → 0"),
    ],
    "two queries are worked on at once": [
        ("kernels/attention.py", "part_of", "in mask.shape[-2] > 1: 1 → 2"),
    ],
    "the form for any dim gives the same for the last": [
        ("kernels/softmax.py", "softmax_gradient", "if dim in (-1, out.ndim - 1) and out.ndim: → if False:"),
        ("kernels/softmax.py", "softmax_gradient", "out.ndim - 1 → out.ndim + 1"),
        ("kernels/softmax.py", "softmax_gradient", "out.ndim - 1 → out.ndim"),
        ("kernels/softmax.py", "softmax_gradient", "out.ndim - 1 → -1"),
        ("kernels/softmax.py", "softmax_gradient", "in out.ndim - 1: 1 → 0"),
    ],
    "other blocks: the same numbers, in more or less time": [
        ("kernels/cross_entropy.py", "blocks", "in max(1, BLOCK // max(shape[1], 1)): 1 → 2"),
        ("kernels/cross_entropy.py", "blocks", "BLOCK // max(shape[1], 1) → BLOCK"),
        ("kernels/cross_entropy.py", "blocks", "in max(shape[1], 1): 1 → 2"),
        ("kernels/cross_entropy.py", "blocks", "in shape[1]: 1 → 0"),
    ],
    "0 is subtracted": [
        (
            "kernels/cross_entropy.py",
            "_cross_entropy_backward",
            "np.subtract(logits[rows], shift[rows], out=p) if shifted else logits[rows] "
            "→ np.subtract(logits[rows], shift[rows], out=p)",
        ),
    ],
    "a factor for each row, rounded once less before it meets the rest": [
        ("kernels/cross_entropy.py", "_cross_entropy_backward", "scale.astype(logits.dtype) → scale"),
        (
            "kernels/layer_norm.py",
            "_layer_norm_backward",
            "(np.vecdot(dx, normalized) / max(d, 1)).astype(dx.dtype) → np.vecdot(dx, normalized) / max(d, 1)",
        ),
    ],
    "of no versions none has changed": [
        (
            "graph.py",
            "backward_pass",
            "node.versions and node.plan.modified(node.versions) → node.plan.modified(node.versions)",
        ),
    ],
    "the general form finds the same": [
        (
            "op.py",
            "pullback",
            "self.joint is not None or useful is None or useful.issuperset(node.parents) "
            "→ self.joint is not None or useful is None",
        ),
        (
            "plan.py",
            "write_out_recording",
            "f'inputs[{i}]._version' if i in arguments else f\"getattr(inputs[{i}], '_version', NEVER_WRITTEN)\" "
            "→ f\"getattr(inputs[{i}], '_version', NEVER_WRITTEN)\"",
        ),
    ],
    "a slice shown is an expression that makes it": [
        (
            "plan.py",
            "write_out_rules",
            "f'saved[{i.start}:{i.stop}]' if isinstance(i, slice) else f'saved[{i}]' → f'saved[{i}]'",
        ),
    ],
    "what is an array is returned as it is": [
        ("op.py", "of_pair", "if type(out) is not np.ndarray: → if True:"),
    ],
    "the same plan, made once more": [
        ("op.py", "make_plan", "self.plans[n, mask] = plan → pass"),
        ("op.py", "make_plan", "if self.takes_pairs: → if False:"),
        ("op.py", "make_plan", "self.pair_plans[mask] = plan → pass"),
        ("op.py", "of_pair", "self.pair_plans[wanted] or self.make_plan(2, wanted) → self.make_plan(2, wanted)"),
        (
            "op.py",
            "several_results",
            "self.plans.get((len(inputs), wanted)) or self.make_plan(len(inputs), wanted) "
            "→ self.make_plan(len(inputs), wanted)",
        ),
    ],
    "−2 and −1 have the lowest two bits of 2 and 3, and in a list of four they are the places 2 and 3": [
        (
            "op.py",
            "of_pair",
            "x._requires_grad + 2 * y._requires_grad → x._requires_grad - 2 * y._requires_grad",
        ),
    ],
    "the plan for no argument is empty, and nothing is recorded": [
        ("op.py", "several_results", "wanted and _recording.get() → _recording.get()"),
    ],
    "a shape broadcasts to itself": [
        (
            "function.py",
            "call",
            "gradient is not None and gradient.shape != parent.shape → gradient is not None",
        ),
    ],
    "there is one": [
        ("function.py", "call", "in node.saved[0]: 0 → -1"),
    ],
    "at 0 both tails are 1/2, up to rounding": [
        ("special.py", "normal_cdf_and_density", "rows >= 0 → rows > 0"),
    ],
    "None is no output": [
        ("function.py", "_keep", "tensor is not None and at is not None → at is not None"),
    ],
    "the version of None is never looked at": [
        ("function.py", "_keep", "in tensor._version[0] if tensor is not None else 0: 0 → 1"),
        ("function.py", "_keep", "in tensor._version[0] if tensor is not None else 0: 0 → -1"),
    ],
    "nothing is among no targets": [
        ("graph.py", "backward_pass", "wanted and node in wanted → node in wanted"),
    ],
    "without smoothing 0 / V is subtracted": [
        ("kernels/cross_entropy.py", "_cross_entropy_backward", "if label_smoothing: → if True:"),
    ],
    "rows that don't count are set to 0 at the end, whatever was there; if there are none, nothing is set": [
        ("kernels/cross_entropy.py", "_cross_entropy_backward", change)
        for change in (
            "if not kept.all(): → if True:",
            "in np.where(kept, target, 0): 0 → -1",
            f"in {SCALE}: 0 → 1",
            f"in {SCALE}: 0 → -1",
            "in max(np.count_nonzero(kept), 1): 1 → 0",
        )
    ],
    "the array has that shape already, or reshape makes a view of it, which the engine copies": [
        (
            "kernels/layer_norm.py",
            "_layer_norm_backward",
            "dx if x.ndim == 2 and len(normalized_shape) == 1 else dx.reshape(x.shape) → dx.reshape(x.shape)",
        ),
        ("kernels/layer_norm.py", "_layer_norm_backward", "in len(normalized_shape) == 1: 1 → 0"),
    ],
    "of a row of one element x̂ is 0, and a row of none has nothing to divide": [
        ("kernels/layer_norm.py", "_layer_norm_backward", "in max(d, 1): 1 → 2"),
        ("kernels/layer_norm.py", "_layer_norm_backward", "in max(d, 1): 1 → 0"),
    ],
}
EQUIVALENT = {change: reason for reason, changes in HARMLESS.items() for change in changes}

# For each function with harmless changes the digest of its source when they were judged: see digest().
JUDGED: dict[tuple[str, str], str] = {
    ("function.py", "_keep"): "56e1e8f6",
    ("function.py", "call"): "c6f7d69c",
    ("graph.py", "backward_pass"): "c230c667",
    ("graph.py", "refresh"): "b3b52b00",
    ("graph.py", "sum_to"): "e7aaa15c",
    ("inplace.py", "assign"): "10a096e9",
    ("inplace.py", "keep_old_value"): "f83e83f4",
    ("inplace.py", "record_overwrite"): "54c3e394",
    ("inplace.py", "replace"): "d3948c76",
    ("kernels/attention.py", "_attention_backward"): "717cf30b",
    ("kernels/attention.py", "heads_inside"): "a5544180",
    ("kernels/attention.py", "part_of"): "a9c5e57a",
    ("kernels/cross_entropy.py", "_cross_entropy_backward"): "8459dcba",
    ("kernels/cross_entropy.py", "blocks"): "f86da7e0",
    ("kernels/layer_norm.py", "_layer_norm_backward"): "248b7d13",
    ("kernels/softmax.py", "softmax_gradient"): "acded655",
    ("op.py", "make_plan"): "c5c9ac19",
    ("op.py", "of_pair"): "5fe226ad",
    ("op.py", "pullback"): "390c8dfa",
    ("op.py", "several_results"): "b9349f63",
    ("plan.py", "write_out_recording"): "68630411",
    ("plan.py", "write_out_rules"): "38123e8b",
    ("rules/elementwise.py", "_over_squared_distance"): "5f4b3765",
    ("rules/elementwise.py", "masked"): "c2752058",
    ("rules/elementwise.py", "maximum, rule of x"): "cd7e884b",
    ("rules/elementwise.py", "maximum, rule of y"): "bc080902",
    ("rules/elementwise.py", "minimum, rule of x"): "0be4f7c7",
    ("rules/elementwise.py", "minimum, rule of y"): "09ebfd31",
    ("rules/elementwise.py", "no_gradient"): "cf2d5169",
    ("rules/elementwise.py", "pow_gradient_of_x"): "f7b90865",
    ("rules/indexing.py", "is_basic"): "10bb51f4",
    ("rules/indexing.py", "place"): "e0f909b4",
    ("rules/linalg.py", "_einsum_backward"): "2434bc92",
    ("rules/linalg.py", "_matmul_gradient_of_y"): "62714f7d",
    ("rules/linalg.py", "parse_einsum"): "2756ad7e",
    ("rules/reduce.py", "_norm_gradient"): "39094884",
    ("rules/reduce.py", "_softmax_below"): "69b905c6",
    ("rules/reduce.py", "_std_gradient"): "4cba7f7a",
    ("rules/shape.py", "transpose, rule of x"): "da9dca7a",
    ("special.py", "normal_cdf_and_density"): "b58e0e2a",
    ("tensor.py", "accumulate"): "5ab7dcf4",
}

# Two functions of NumPy that are easily mistaken for each other.
SWAPS = {
    "cos": "sin", "sin": "cos", "sinh": "cosh", "cosh": "sinh", "logical_and": "logical_or", "zeros": "ones",
    "logical_or": "logical_and", "ones": "zeros", "maximum": "minimum", "log": "exp", "isinf": "isfinite",
}  # fmt: skip
# Functions and methods that may be left out: f(x, …) → x, x.f(…) → x.
DROPS = {
    "flip", "cumsum", "cumprod", "exp", "transpose", "sqrt", "floor", "sign", "moveaxis", "swapaxes",
    "tril", "triu", "roll", "squeeze", "expand_dims", "keep", "astype", "copy", "broadcast_to", "vecdot",
    "recurrence", "log",
}  # fmt: skip
COMPARISONS = [(ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot), (ast.In, ast.NotIn)]

# Changes of more than one node, as text: (file, function, before, after).
EXTRA = [
    (
        "minigrad/graph.py",
        "sum_to",
        "np.sum(gradient, axis=dims)",
        "gradient[tuple(0 if d in dims else slice(None) for d in range(gradient.ndim))]",
    ),
    ("minigrad/graph.py", "deliver", "np.add(present, gradient, present)", "pending[parent] = gradient"),
    ("minigrad/graph.py", "deliver", "pending[parent] = pending[parent] + gradient", "pending[parent] = gradient"),
    ("minigrad/graph.py", "deliver", "elif parent in owned and type", "elif type"),
    ("minigrad/graph.py", "deliver", "if fresh:\n", "if True:\n"),
    ("minigrad/graph.py", "deliver", "gradient, fresh = sum_to(gradient, like.shape), False", "pass"),
    ("minigrad/graph.py", "backward_pass", " and gradient.base is None", ""),
    ("minigrad/graph.py", "backward_pass", "fresh = gradient is not cotangent and type", "fresh = type"),
    ("minigrad/rules/indexing.py", "place", "np.add.at(result, index, g)", "result[index] = g"),
    ("minigrad/rules/indexing.py", "place", "np.add.at(result.reshape(-1), flat.reshape(-1), np.reshape(g, -1))",
     "result[index] = g"),
]  # fmt: skip


# --- making mutants -------------------------------------------------------------------------------


Entry = tuple[str, str, str]  # (file, function, change), as in HARMLESS


@dataclass
class Mutant:
    """One change: where, what, and the code to put in the place of the living function's."""

    file: str
    line: int
    function: str
    change: str
    key: Any = None  # of the living function
    code: types.CodeType | None = None
    result: str = ""  # which test killed it; "" while unknown or if it survived
    seconds: float = 0.0
    digest: str = ""  # of the function's source

    @property
    def entry(self) -> Entry:
        """How the tables below name it."""
        return self.file.removeprefix("minigrad/"), self.function, self.change

    @property
    def reason(self) -> str | None:
        """Why it is no mistake at all, if it is none, and was found so in the function as it is now."""
        return EQUIVALENT.get(self.entry) if JUDGED.get(self.entry[:2]) == self.digest else None


def key_of(code: types.CodeType) -> Any:
    """Return what tells the code objects of one file apart: the places in the source that it was made from."""
    return tuple(code.co_positions())


def constant_codes(code: types.CodeType) -> list[types.CodeType]:
    return [c for c in code.co_consts if isinstance(c, types.CodeType)]


def function_nodes(tree: ast.Module, file: str, helpers: dict[str, ast.AST]) -> Iterator[tuple[str, ast.AST]]:
    """Yield (name, node) of every function of a file that is to be mutated."""
    if file in ENGINE:
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name in ENGINE[file]:
                yield node.name, node
        return
    defined = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    for node in declarations(tree):
        for call in ast.walk(node):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in ("op", "kernel"):
                owner = getattr(node, "name", None) or ast.unparse(getattr(node, "targets", [node])[0])
                for keyword in call.keywords:
                    if isinstance(keyword.value, ast.Lambda):
                        yield f"{owner.strip('_')}, rule of {keyword.arg}", keyword.value
    for name in defined:
        if name in ALONG.get(file, ()) or name in helpers:
            yield name, defined[name]


def declarations(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield the statements of a file, and those of its classes, in which operations are declared as methods."""
    for node in tree.body:
        yield from node.body if isinstance(node, ast.ClassDef) else [node]


def is_operation(function: ast.FunctionDef) -> bool:
    """Whether a function is the forward pass of an operation, other than one that serves rules only."""
    calls = [d for d in function.decorator_list if isinstance(d, ast.Call) and isinstance(d.func, ast.Name)]
    declared = [d for d in calls if d.func.id in ("op", "kernel")]  # type: ignore[attr-defined]
    return bool(declared) and not any(k.arg == "internal" for d in declared for k in d.keywords)


def helpers_of(trees: dict[str, ast.Module]) -> dict[str, ast.AST]:
    """Return the named functions that rules consist of: named rules, and what they and the lambdas call."""
    defined: dict[str, ast.FunctionDef] = {}
    for file, tree in trees.items():
        if file not in ENGINE:
            functions = [n for n in tree.body if isinstance(n, ast.FunctionDef)]
            defined.update({n.name: n for n in functions if not is_operation(n)})
    pending: list[ast.AST] = []
    found: dict[str, ast.AST] = {}
    for file, tree in trees.items():
        if file in ENGINE:
            continue
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in ("op", "kernel"):
                pending += [k.value for k in call.keywords if k.arg not in ("composed", "numpy")]
                pending += call.args[:1]
    while pending:
        start = pending.pop()
        calls = [node.func for node in ast.walk(start) if isinstance(node, ast.Call)]
        for node in [start, *calls]:
            name = node.id if isinstance(node, ast.Name) else None
            if name in defined and name not in found and not name.endswith("_composed"):
                found[name] = defined[name]
                pending += defined[name].body
    return found


def places(function: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, ast.AST]]:
    """Yield (parent, field, index, node) of everything in a function but annotations, messages and docstrings."""
    pending: list[ast.AST] = [function]
    while pending:
        parent = pending.pop()
        for name, value in ast.iter_fields(parent):
            if name in ("annotation", "returns", "decorator_list", "type_params", "args") and not (
                isinstance(parent, ast.Call) and name == "args"
            ):
                continue
            for index, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
                if not isinstance(node, ast.AST) or isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr):
                    continue
                if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                    continue
                yield parent, name, index, node
                pending.append(node)


def parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def variants(node: ast.AST, cotangent: str | None) -> Iterator[ast.AST]:
    """Yield what may stand in a node's place."""
    match node:
        case ast.BinOp(left, operator, right):
            match operator:
                case ast.Add():
                    yield from (ast.BinOp(left, ast.Sub(), right), left, right)
                case ast.Sub():
                    yield from (ast.BinOp(left, ast.Add(), right), left, ast.UnaryOp(ast.USub(), right))
                case ast.Mult():
                    yield from (ast.BinOp(left, ast.Add(), right), left, right)
                case ast.Div():
                    yield from (ast.BinOp(left, ast.Mult(), right), left)
                case ast.MatMult():
                    yield ast.BinOp(right, ast.MatMult(), left)
                case ast.Pow() | ast.Mod() | ast.FloorDiv():
                    yield left
        case ast.UnaryOp(_, operand):
            yield operand
        case ast.Compare(left, [operator], [right]):
            for pair in COMPARISONS:
                for one, other in (pair, pair[::-1]):
                    if type(operator) is one:
                        yield ast.Compare(left, [other()], [right])
        case ast.BoolOp(operator, values):
            yield ast.BoolOp(ast.Or() if isinstance(operator, ast.And) else ast.And(), values)
            for value in values:
                rest = [v for v in values if v is not value]
                yield rest[0] if len(rest) == 1 else ast.BoolOp(operator, rest)
        case ast.Constant(value):
            if isinstance(value, bool):
                yield ast.Constant(not value)
            elif isinstance(value, int):
                yield ast.Constant(value + 1)
                yield ast.Constant(value - 1) if value else ast.UnaryOp(ast.USub(), ast.Constant(1))
            elif isinstance(value, float):
                yield ast.Constant(1.5 - value if value in (0.5, 1) else value + 1)
        case ast.IfExp(_, body, orelse):
            yield from (body, orelse)
        case ast.Attribute(value, "mT" | "T"):
            yield value
        case ast.Name(name) if name == cotangent and isinstance(node.ctx, ast.Load):
            yield parsed(f"np.ones_like({name})")
        case ast.Call(function, arguments, keywords):
            name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            on_module = not isinstance(function, ast.Attribute) or ast.unparse(function.value) == "np"
            if name in SWAPS and on_module:
                yield ast.Call(parsed(f"np.{SWAPS[name]}"), arguments, keywords)
            if name in DROPS:
                yield arguments[0] if on_module and arguments else getattr(function, "value", node)
            if name == "where" and len(arguments) == 3:
                yield ast.Call(function, [arguments[0], arguments[2], arguments[1]], keywords)
                yield from arguments[1:]
        case ast.AugAssign(target, operator, value):
            load = parsed(ast.unparse(target))
            yield ast.Assign([target], value)
            yield ast.Pass()
            other = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult}.get(type(operator))
            if other is not None:
                yield ast.Assign([target], ast.BinOp(load, other(), value))
        case ast.Assign([ast.Subscript()]) | ast.Expr(ast.Call()) | ast.Continue():
            yield ast.Pass()
        case ast.If(_, body, orelse):
            yield ast.If(ast.Constant(True), body, orelse)
            yield ast.If(ast.Constant(False), body, orelse)


def results(function: Any) -> Iterator[tuple[Any, str, int | None, ast.expr]]:
    """Yield (parent, field, index, node) of what a rule returns: for a tuple, each of its elements."""
    if isinstance(function, ast.Lambda):
        yield function, "body", None, function.body
    for statement in ast.walk(function):
        if isinstance(statement, ast.Return) and isinstance(statement.value, ast.Tuple):
            yield from ((statement.value, "elts", i, value) for i, value in enumerate(statement.value.elts))
        elif isinstance(statement, ast.Return) and statement.value is not None:
            yield statement, "value", None, statement.value


def swapped_arguments(function: Any) -> Iterator[tuple[str, str]]:
    """Yield pairs of a function's arguments, besides the cotangent, that it uses and that could be confused."""
    body = function.body if isinstance(function.body, list) else [function.body]
    used = {n.id for part in body for n in ast.walk(part) if isinstance(n, ast.Name)}
    names = [a.arg for a in function.args.args[1:] if a.arg in used]
    for one, other in itertools.combinations(names, 2):
        if ("shape" in one) == ("shape" in other) and not {one, other} & {"self", "wanted", "index"}:
            yield one, other


def mutants_of(file: str, source: str, helpers: dict[str, ast.AST], living: dict[Any, Any]) -> Iterator[Mutant]:
    """Yield every mutant of a file."""
    tree = ast.parse(source)
    path = str(ROOT_OF_COPY / file)
    original = compile(tree, path, "exec", dont_inherit=True)
    seen: set[tuple[str, str]] = set()
    times: Counter[tuple[str, str]] = Counter()  # the same change at several places of a function is numbered

    def made(function: str, line_of_change: int, change: str, mutated: Any, span: Span) -> Mutant | None:
        """Compile a changed module and find the code of the living function that the change is in."""
        try:
            code = compile(mutated, path, "exec", dont_inherit=True)
        except (SyntaxError, ValueError, TypeError):
            return None
        for old, new in pairs(original, code):
            if any(line and (line, column) in span for line, _, column, _ in old.co_positions()):
                return Mutant(file, line_of_change, function, change, key_of(old), new, digest=span.digest)
        return None

    def pairs(old: types.CodeType, new: types.CodeType) -> Iterator[tuple[types.CodeType, types.CodeType]]:
        """Yield the living functions' code, before and after."""
        if key_of(old) in living:
            yield old, new
        else:
            for one, other in zip(constant_codes(old), constant_codes(new), strict=True):
                yield from pairs(one, other)

    for name, function in function_nodes(tree, file, helpers):
        span = Span(function)
        arguments = function.args.args  # type: ignore[attr-defined]
        cotangent = arguments[0].arg if arguments and arguments[0].arg == "g" else None
        spots = [(spot, list(variants(spot[-1], cotangent))) for spot in places(function)]
        if cotangent is not None:  # the whole result with another sign, and half of it
            for spot in results(function):
                negative, half = (
                    ast.UnaryOp(ast.USub(), spot[-1]),
                    ast.BinOp(ast.Constant(0.5), ast.Mult(), spot[-1]),
                )
                spots.append((spot, [negative, half]))
        for (parent, field_, index, node), news in spots:
            if isinstance(parent, ast.keyword) and parent.arg in ("strict", "optimize"):
                continue  # lengths are equal by construction, and the order of products is a matter of speed
            about = getattr(parent, "attr", None) or getattr(getattr(parent, "func", None), "attr", None)
            if about in ("shape", "dtype", "ndim", "result_type") and isinstance(node, ast.Name):
                continue  # an array of ones has the same
            if isinstance(parent, ast.UnaryOp) and isinstance(node, ast.Constant):
                continue  # −1 becomes 1: that is enough
            for new in news:
                ast.copy_location(new, node)
                change = shown(node, new)
                if isinstance(node, ast.Constant | ast.Name):
                    change = f"in {shown(parent)}: {change}"
                if index is None:
                    setattr(parent, field_, new)
                else:
                    getattr(parent, field_)[index] = new
                whole = (name, ast.unparse(function))
                if whole not in seen:
                    seen.add(whole)
                    ast.fix_missing_locations(tree)
                    mutant = made(name, node.lineno, change, tree, span)  # type: ignore[attr-defined]
                    if mutant is not None:
                        times[name, change] += 1
                        if times[name, change] > 1:
                            mutant.change += f"  ({times[name, change]})"
                        yield mutant
                if index is None:
                    setattr(parent, field_, node)
                else:
                    getattr(parent, field_)[index] = node
        for one, other in swapped_arguments(function):
            exchange = {one: other, other: one}
            body = function.body if isinstance(function.body, list) else [function.body]  # type: ignore[attr-defined]
            used = [n for part in body for n in ast.walk(part) if isinstance(n, ast.Name) and n.id in exchange]
            for n in used:
                n.id = exchange[n.id]
            change, line = f"{one} ↔ {other}", function.lineno  # type: ignore[attr-defined]
            mutant = made(name, line, change, tree, span)
            for n in used:
                n.id = exchange[n.id]
            if mutant is not None:
                yield mutant
    for where, name, before, after in EXTRA:
        if where == file:
            found = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == name]
            if before not in source or not found:
                continue  # stale() says so
            line = source[: source.index(before)].count("\n") + 1
            change = f"{before.strip()} → {after.strip()}"
            mutant = made(name, line, change, source.replace(before, after, 1), Span(found[0]))
            if mutant is not None:
                yield mutant


def digest(function: ast.AST) -> str:
    """Return what tells whether a function has changed: not its comments, layout or docstring, all the rest."""
    copy = ast.parse(ast.unparse(function)).body[0]
    if isinstance(copy, ast.FunctionDef) and ast.get_docstring(copy) is not None:
        copy.body = copy.body[1:] or [ast.Pass()]
    return hashlib.sha256(ast.unparse(copy).encode()).hexdigest()[:8]


class Span:
    """From where to where in the source a function goes, and its digest."""

    def __init__(self, node: Any) -> None:
        self.start = node.lineno, node.col_offset
        self.end = node.end_lineno, node.end_col_offset
        self.digest = digest(node)

    def __contains__(self, place: tuple[int, int]) -> bool:
        return self.start <= place < self.end


def shown(*nodes: ast.AST) -> str:
    """Return "before → after", each by its first line."""
    return " → ".join(ast.unparse(ast.fix_missing_locations(node)).split("\n")[0] for node in nodes)


# --- running tests against them -------------------------------------------------------------------


@dataclass
class Runner:
    """A pytest plugin that takes the place of the test loop."""

    options: argparse.Namespace
    mutants: list[Mutant] = field(default_factory=list)
    executed: dict[Any, list[int]] = field(default_factory=dict)  # key of a function → items that execute it
    seconds: list[float] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)  # entries of the tables that don't fit the code any more
    killers: dict[Entry, str] = field(default_factory=dict)  # by an earlier run

    def pytest_configure(self, config: Any) -> None:
        """Choose what Hypothesis does, before the tests are imported: a failure is enough, nothing is shrunk."""
        from hypothesis import HealthCheck, Phase, settings

        settings.register_profile(
            "mutation",
            derandomize=True,
            deadline=None,
            max_examples=20,
            database=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False,
        )
        settings.load_profile("mutation")

    def pytest_runtestloop(self, session: Any) -> bool:
        self.items = session.items
        self.living = self.find_living()
        self.collect_mutants()
        if self.options.judged:
            print(judged(self.mutants))
            return True
        if self.options.list:
            for m in self.mutants:
                print(f"{m.file}:{m.line} {m.function}: {m.change}")
            print(len(self.mutants), "mutants")
            return True
        self.trace()
        self.run_all()
        return True

    def find_living(self) -> dict[Any, list[types.FunctionType]]:
        """Return the functions of the copied package, by the key of their code."""
        found: dict[Any, list[types.FunctionType]] = {}
        root = str(ROOT_OF_COPY / "minigrad")
        for thing in gc.get_objects():
            if isinstance(thing, types.FunctionType) and thing.__code__.co_filename.startswith(root):
                found.setdefault(key_of(thing.__code__), []).append(thing)
        return found

    def collect_mutants(self) -> None:
        files = sorted({str(p.relative_to(ROOT_OF_COPY)) for glob in RULES for p in ROOT_OF_COPY.glob(glob)})
        files += [file for file in (*ENGINE, *ALONG) if file not in files]
        sources = {file: (ROOT_OF_COPY / file).read_text(encoding="utf-8") for file in files}
        helpers = helpers_of({file: ast.parse(source) for file, source in sources.items()})
        files = [file for file in files if any(part in file for part in (self.options.only or "").split(","))]
        for file in files:
            self.mutants += mutants_of(file, sources[file], helpers, self.living)
        self.stale = stale(sources, files, self.mutants)
        self.mutants = self.mutants[:: self.options.every][: self.options.limit]
        if self.options.doubt:
            self.mutants = [m for m in self.mutants if m.entry in EQUIVALENT]
        if self.options.again is not None:
            self.killers = killers(self.options.again.read_text(encoding="utf-8"))

    def trace(self) -> None:
        """Run all tests once, unchanged: which executes which function, and how long it takes."""
        from tqdm import tqdm

        keys = {id(f.__code__): key for key, functions in self.living.items() for f in functions}
        wanted = {m.key for m in self.mutants}
        keys = {i: key for i, key in keys.items() if key in wanted}
        broken = []
        for number, item in enumerate(tqdm(self.items, desc="tests, unchanged", mininterval=1)):
            if "test_programs" in item.nodeid:  # long ones, which execute nearly everything: for the engine only
                self.seconds.append(3.0)
                if any(oracle in item.nodeid for oracle in PROGRAMS):
                    for key in {m.key for m in self.mutants if m.file in ENGINE}:
                        self.executed.setdefault(key, []).append(number)
                continue
            forget()
            profile = cProfile.Profile(builtins=False)
            start = time.perf_counter()
            profile.enable()
            passed = self.run(item)
            profile.disable()
            self.seconds.append(time.perf_counter() - start)
            if not passed:
                broken.append(item.nodeid)
                continue
            for key in {keys[id(entry.code)] for entry in profile.getstats() if id(entry.code) in keys}:
                self.executed.setdefault(key, []).append(number)
        broken += self.control()
        if broken:
            print("these tests fail without any change and are left out:", *broken, sep="\n    ")

    def control(self) -> list[str]:
        """Run in a child, with nothing changed, every test that is to judge mutants: none may fail there."""
        wanted = sorted({number for numbers in self.executed.values() for number in numbers})
        read, write = os.pipe()
        if os.fork() == 0:
            try:
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, 1)
                os.dup2(null, 2)
                for number in wanted:
                    os.write(write, f"{number} {self.run(self.items[number]):d}\n".encode())
            finally:
                os._exit(0)
        os.close(write)
        with os.fdopen(read, encoding="utf-8") as lines:
            passed = {int(number) for number, good in (line.split() for line in lines) if good == "1"}
        os.wait()
        for key, numbers in self.executed.items():
            self.executed[key] = [number for number in numbers if number in passed]
        return [self.items[number].nodeid for number in wanted if number not in passed]

    def run(self, item: Any) -> bool:
        """Run one test, with warnings as errors, and return whether it passed (or was skipped).

        Without pytest's report of a failure: writing that takes longer than the test.
        """
        if not item._request:
            item._initrequest()
        state = item.session._setupstate
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                try:
                    state.setup(item)
                    item.runtest()
                finally:
                    state.teardown_exact(None)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            return type(error).__name__ == "Skipped"
        finally:
            item._request = False
            item.funcargs = None
        return True

    def child(self, mutant: Mutant, pipe: int) -> None:
        """In a forked process: change the function, and run the tests that execute it until one fails."""
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        for function in self.living[mutant.key]:
            function.__code__ = mutant.code.replace(  # type: ignore[union-attr]
                co_name=function.__code__.co_name, co_qualname=function.__code__.co_qualname
            )
        forget()
        items = self.executed.get(mutant.key, [])
        if mutant.file in ENGINE:  # executed by nearly every test: these are the ones about it
            items = [i for i in items if not self.beside(self.items[i].nodeid)]
        before = self.killers.get(mutant.entry)

        def order(i: int) -> tuple[Any, ...]:
            first = self.items[i].nodeid != before
            return first, self.seconds[i] > 1, self.rank(i, mutant), self.seconds[i]

        for number in sorted(items, key=order):
            os.write(pipe, f"? {self.items[number].nodeid}\n".encode())
            limit = 20 + 10 * self.seconds[number]  # of processor time, for others may be busy
            signal.setitimer(signal.ITIMER_PROF, limit)
            signal.setitimer(signal.ITIMER_REAL, 20 * limit)  # where it only waits
            if not self.run(self.items[number]):
                os.write(pipe, f"! {self.items[number].nodeid}\n".encode())
                return
        os.write(pipe, b"survived\n")

    def beside(self, nodeid: str) -> bool:
        """Whether a test is one of the hundreds that hold one operation each to differences at first order."""
        return any(name in nodeid for name in ("test_every_", "test_first_order", "test_kernel_equals"))

    def rank(self, number: int, mutant: Mutant) -> int:
        """Return 0 for tests that are about the function by their name or file, and higher for others."""
        nodeid = self.items[number].nodeid
        if mutant.file in ENGINE:
            return int(not any(name in nodeid for name in ("graph", "inplace", "survivors", "extend", "func")))
        name = mutant.function.split(",")[0].strip("_").removesuffix("_backward").split("_gradient")[0]
        return 0 if f"[{name}" in nodeid or f"-{name}" in nodeid else 1 if "test_gradients" in nodeid else 2

    def run_all(self) -> None:
        from tqdm import tqdm

        gc.collect()
        gc.freeze()  # what a child never touches is never copied
        bar = tqdm(total=len(self.mutants), desc="mutants", mininterval=1)
        pending = list(self.mutants[::-1])
        running: dict[int, tuple[Mutant, int, float]] = {}
        while pending or running:
            while pending and len(running) < self.options.jobs:
                mutant = pending.pop()
                if mutant.reason is not None and not self.options.doubt:
                    bar.update()
                    continue
                read, write = os.pipe()
                child = os.fork()
                if child == 0:
                    status = 1
                    try:
                        self.child(mutant, write)
                        status = 0
                    finally:
                        os._exit(status)
                os.close(write)
                running[child] = mutant, read, time.perf_counter()
            if not running:
                continue
            child, status = os.wait()
            mutant, read, start = running.pop(child)
            with os.fdopen(read, encoding="utf-8", errors="replace") as lines:
                said = lines.read().strip().split("\n")
            mutant.seconds = time.perf_counter() - start
            last = said[-1]
            if last.startswith("!"):
                mutant.result = last[2:]
            elif last.startswith("?"):
                how = "never ended" if os.WIFSIGNALED(status) else "ended the process"
                mutant.result = f"{last[2:]} ({how})"
            else:  # every test passed, or none began
                bar.write(f"survived: {mutant.file}:{mutant.line} {mutant.function}: {mutant.change}")
            bar.update()
        bar.close()


def forget() -> None:
    """Have what is worked out once and kept be worked out anew: it was by the code before a change."""
    for name, module in sys.modules.items():
        if name.startswith("minigrad"):
            for thing in vars(module).values():
                if isinstance(thing, functools._lru_cache_wrapper):
                    thing.cache_clear()
    for operation in sys.modules["minigrad.op"].registry.values():
        operation.plans.clear()
        operation.pair_plans[:] = [None] * len(operation.pair_plans)


def stale(sources: dict[str, str], files: list[str], mutants: list[Mutant]) -> list[str]:
    """Return what the tables of this module say of ``files`` that is not so, or not known to be so, any more."""
    found = []
    made = {m.entry: m for m in mutants}
    short = {file.removeprefix("minigrad/") for file in files}
    for file, names in (*ENGINE.items(), *ALONG.items()):
        if file in files:
            defined = {n.name for n in ast.walk(ast.parse(sources[file])) if isinstance(n, ast.FunctionDef)}
            found += [f"ENGINE or ALONG: {file} has no function {name}" for name in names if name not in defined]
    for file, name, before, _ in EXTRA:
        if file in files and before not in sources[file]:
            found.append(f"EXTRA: {file} has no {before!r}, in {name}")
    changed: dict[tuple[str, str], list[str]] = {}
    for entry in EQUIVALENT:
        if entry[0] not in short:
            continue
        if entry not in made:
            found.append(f"HARMLESS: there is no such change: {entry[0]} {entry[1]}: {entry[2]}")
        elif JUDGED.get(entry[:2]) != made[entry].digest:
            changed.setdefault(entry[:2], []).append(entry[2])
    for (file, name), changes in changed.items():
        found.append(
            f"JUDGED: {name} in {file} is not what it was when {len(changes)} changes were found harmless: "
            "read them again, then see --judged"
        )
    return found


def judged(mutants: list[Mutant]) -> str:
    """Return the table JUDGED for the code as it is."""
    rows = sorted({(m.entry[0], m.entry[1], m.digest) for m in mutants if m.entry in EQUIVALENT})
    lines = [f'    ("{file}", "{function}"): "{code}",' for file, function, code in rows]
    return "\n".join(["JUDGED = {", *lines, "}"])


def survivors(mutants: list[Mutant]) -> list[Mutant]:
    return [m for m in mutants if m.reason is None and not m.result]


def table(mutants: list[Mutant]) -> str:
    """Return the report in Markdown: a summary, what survived, what is equivalent and why, and every mutant."""
    equivalent = [m for m in mutants if m.reason is not None]
    alive = survivors(mutants)
    killed = [m for m in mutants if m.reason is None and m.result]
    rate = 100 * len(killed) / max(1, len(killed) + len(alive))

    def row(m: Mutant, last: str) -> str:
        cells = [f"{m.file}:{m.line}", m.function, f"`{m.change}`", last]
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    header = ["| where | function | change | {} |", "| --- | --- | --- | --- |"]
    summary = (
        f"{len(mutants)} mutants: {len(killed)} killed, {len(alive)} survived, {len(equivalent)} equivalent.  "
    )
    lines = ["# Mutants", "", f"{summary}Kill rate {rate:.1f} % of those that are not equivalent.", ""]
    counts: dict[str, Counter[str]] = {}
    for m in mutants:
        state = "equivalent" if m.reason is not None else "killed" if m.result else "survived"
        counts.setdefault(m.file, Counter())[state] += 1
    lines += ["| file | killed | survived | equivalent |", "| --- | --- | --- | --- |"]
    lines += [f"| {f} | {c['killed']} | {c['survived']} | {c['equivalent']} |" for f, c in counts.items()]
    if alive:
        lines += ["", "## Survived", "", header[0].format(""), header[1], *(row(m, "") for m in alive)]
    if equivalent:
        lines += ["", "## Equivalent", "", header[0].format("why it is no mistake"), header[1]]
        lines += [row(m, m.reason or "") for m in equivalent]
    lines += ["", "## Killed", "", header[0].format("by"), header[1], *(row(m, m.result) for m in killed)]
    return "\n".join(lines) + "\n"


def killers(report: str) -> dict[Entry, str]:
    """Return which test killed which mutant, from the last part of a report that table() made."""
    found = {}
    for line in report.partition("## Killed")[2].splitlines():
        cells = [cell.replace("\\|", "|") for cell in line.removeprefix("| ").removesuffix(" |").split(" | ")]
        if len(cells) == 4 and cells[2].startswith("`"):
            file = cells[0].partition(":")[0].removeprefix("minigrad/")
            found[file, cells[1], cells[2][1:-1]] = (
                cells[3].removesuffix(" (never ended)").removesuffix(" (ended the process)")
            )
    return found


ROOT_OF_COPY = ROOT


def main() -> int:
    """Run the command; return 0 if no mutant survived."""
    global ROOT_OF_COPY
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--limit", type=int, help="so many mutants at most")
    parser.add_argument("--every", type=int, default=1, help="only every so many-th mutant")
    parser.add_argument("--only", metavar="FILE,…", help="only files whose path contains one of these")
    parser.add_argument("--jobs", type=int, default=1, help="so many at a time")
    parser.add_argument("--out", type=Path, default=Path("mutants.md"), help="where the table is written")
    parser.add_argument(
        "--again", metavar="TABLE", type=Path, help="begin with the test that killed it in an earlier table"
    )
    parser.add_argument("--list", action="store_true", help="list the mutants and run nothing")
    parser.add_argument("--doubt", action="store_true", help="run the mutants called harmless, and no others")
    parser.add_argument("--judged", action="store_true", help="print the table JUDGED and run nothing")
    options = parser.parse_args()
    if not hasattr(os, "fork"):
        parser.error("this command forks, which this operating system does not")
    out = options.out.resolve()
    options.again = options.again and options.again.resolve()

    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        ROOT_OF_COPY = Path(scratch).resolve()
        skip = shutil.ignore_patterns("__pycache__")
        for name in ("minigrad", "tests"):
            shutil.copytree(ROOT / name, ROOT_OF_COPY / name, ignore=skip)
        shutil.copy(ROOT / "pyproject.toml", ROOT_OF_COPY)
        os.chdir(ROOT_OF_COPY)
        sys.path[:] = [
            str(ROOT_OF_COPY),
            *(p for p in sys.path if Path(p).resolve() not in (ROOT, ROOT / "tests")),
        ]
        sys.dont_write_bytecode = True

        import pytest

        runner = Runner(options)
        tests = [f"tests/test_{name}.py" for name in TESTS]
        status = pytest.main(
            ["-s", "-o", "addopts=", "-p", "no:terminal", "-p", "no:cacheprovider", *tests], plugins=[runner]
        )
    if options.judged:
        return int(status)
    if runner.stale:
        print("stale:", *runner.stale, sep="\n    ")
    if options.list or not runner.mutants:
        return int(status) or int(bool(runner.stale))
    if options.doubt:
        refuted = [m for m in runner.mutants if m.result]
        print(f"{len(runner.mutants)} changes called harmless, {len(refuted)} of them refuted:")
        print(*(f"    {m.file} {m.function}: {m.change}\n        by {m.result}" for m in refuted), sep="\n")
        return 1 if refuted else 0
    out.write_text(table(runner.mutants), encoding="utf-8")
    alive = survivors(runner.mutants)
    print(f"{len(runner.mutants)} mutants, {len(alive)} survived: {out}")
    return 1 if alive or runner.stale else 0


if __name__ == "__main__":
    sys.exit(main())
