"""The changes that are no mistakes, each with its reason, and the code of which that was found."""

PART = "isinstance(part, int | slice | np.integer)"
SCALE = "np.where(kept, g / max(np.count_nonzero(kept), 1) if reduction == 'mean' else g, 0)"
DTYPES = "gradient.dtype is not like.dtype and gradient.dtype != like.dtype"
KNOWN = "(label for label, n in zip(labels[j], operands_shape[j], strict=True) if n != 1)"

# Changes that change no result, by the reason why: {reason: [(file, function, "before → after"), …]}.
HARMLESS: dict[str, list[tuple[str, str, str]]] = {
    "at a tie the other argument of where() decides": [
        ("rules/piecewise.py", "maximum, rule of x", "x > y → x >= y"),
        ("rules/piecewise.py", "maximum, rule of y", "y > x → y >= x"),
        ("rules/piecewise.py", "minimum, rule of x", "x < y → x <= y"),
        ("rules/piecewise.py", "minimum, rule of y", "y < x → y <= x"),
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
            "rules/piecewise.py",
            "masked",
            "if isinstance(product, np.ndarray) and np.isfinite(np.add.reduce(product, axis=None)): → if False:",
        ),
    ],
    "it is 0 throughout": [
        ("rules/piecewise.py", "zero_gradient", "masked(g, False) → -masked(g, False)"),
        ("rules/piecewise.py", "zero_gradient", "masked(g, False) → 0.5 * masked(g, False)"),
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
        (
            "graph.py",
            "backward_pass",
            "gradient if place in arrivals.owned else np.array(gradient) → np.array(gradient)",
        ),
        *(
            ("graph.py", "deliver", change)
            for change in (
                "if gradient.shape != like.shape: → if True:",
                "if gradient.dtype is not like.dtype and gradient.dtype != like.dtype: → if True:",
                "if fresh: → if False:",
                "if parent in owned and type(gradient) is np.ndarray: → if False:",
                "if type(total) is np.ndarray: → if False:",
                "owned.add(parent) → pass",
                "owned.add(parent) → pass  (2)",
                f"{DTYPES} → gradient.dtype is not like.dtype or gradient.dtype != like.dtype",
                f"{DTYPES} → gradient.dtype != like.dtype",
                f"{DTYPES} → gradient.dtype is not like.dtype",
            )
        ),
    ],
    "a tensor's shape and dtype are those of its array": [
        ("graph.py", "deliver", "parent if type(parent) is Node else parent._data → parent"),
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
        ("plan.py", "write_out_recording", "if i in arguments: → if False:"),
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
        ("op.py", "make_plan", "self.plans[n, wanted] = plan → pass"),
        ("op.py", "make_plan", "if self.takes_pairs: → if False:"),
        ("op.py", "make_plan", "self.pair_plans[wanted] = plan → pass"),
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
    ("function.py", "call"): "167b7437",
    ("graph.py", "backward_pass"): "15f368f9",
    ("graph.py", "deliver"): "5aba111e",
    ("graph.py", "refresh"): "b3b52b00",
    ("graph.py", "sum_to"): "e7aaa15c",
    ("inplace.py", "assign"): "10a096e9",
    ("inplace.py", "keep_old_value"): "f83e83f4",
    ("inplace.py", "record_overwrite"): "54c3e394",
    ("inplace.py", "replace"): "d3948c76",
    ("kernels/attention.py", "_attention_backward"): "3fcc86ab",
    ("kernels/attention.py", "heads_inside"): "a5544180",
    ("kernels/attention.py", "part_of"): "a9c5e57a",
    ("kernels/cross_entropy.py", "_cross_entropy_backward"): "8459dcba",
    ("kernels/cross_entropy.py", "blocks"): "f86da7e0",
    ("kernels/layer_norm.py", "_layer_norm_backward"): "248b7d13",
    ("kernels/softmax.py", "softmax_gradient"): "acded655",
    ("op.py", "make_plan"): "93592325",
    ("op.py", "of_pair"): "5fe226ad",
    ("op.py", "pullback"): "390c8dfa",
    ("op.py", "several_results"): "b9349f63",
    ("plan.py", "write_out_recording"): "6eca94dc",
    ("plan.py", "write_out_rules"): "e00df78b",
    ("rules/elementwise.py", "_over_squared_distance"): "5f4b3765",
    ("rules/piecewise.py", "masked"): "c2752058",
    ("rules/piecewise.py", "maximum, rule of x"): "cd7e884b",
    ("rules/piecewise.py", "maximum, rule of y"): "bc080902",
    ("rules/piecewise.py", "minimum, rule of x"): "0be4f7c7",
    ("rules/piecewise.py", "minimum, rule of y"): "09ebfd31",
    ("rules/piecewise.py", "zero_gradient"): "d236fb68",
    ("rules/elementwise.py", "pow_gradient_of_x"): "c716e5ac",
    ("rules/indexing.py", "is_basic"): "10bb51f4",
    ("rules/indexing.py", "place"): "e0f909b4",
    ("rules/linalg.py", "_einsum_backward"): "2434bc92",
    ("rules/linalg.py", "_matmul_gradient_of_y"): "62714f7d",
    ("rules/linalg.py", "parse_einsum"): "2756ad7e",
    ("rules/reduce.py", "_norm_gradient"): "a91c22d9",
    ("rules/reduce.py", "_softmax_below"): "b898cf8e",
    ("rules/reduce.py", "_std_gradient"): "2764fc71",
    ("rules/shape.py", "transpose, rule of x"): "da9dca7a",
    ("special.py", "normal_cdf_and_density"): "b58e0e2a",
    ("tensor.py", "accumulate"): "5ab7dcf4",
}
