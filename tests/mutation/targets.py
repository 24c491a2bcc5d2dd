"""What is mutated, in which ways, and by which tests it is to be noticed."""

import ast

# What is mutated: the rules and backward passes in these files, with the helpers that they call …
RULES = ["minigrad/rules/*.py", "minigrad/kernels/*.py"]
DECLARERS = ("op", "kernel", "unary", "real", "binary")  # the calls in which rules stand
# … and these functions of the engine.
ENGINE = {
    "minigrad/graph.py": [
        "sum_to", "deliver", "deliver_result", "take", "backward_pass", "zeros_for_none", "copy_shared",
        "leading_to", "modified_since", "refresh", "replay", "pick",
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

# The tests that are to notice, in this order …
TESTS = [
    "gradients", "fused", "conventions", "kinks", "extreme_numbers", "dtypes", "dimensions", "einsum", "numpy",
    "op", "inplace", "saved_values", "func", "graph", "graph_memory", "hooks", "higher_order", "gradcheck",
    "grad_mode", "extend", "programs",
]  # fmt: skip
# … but those of the engine first where it is a function of the engine that is changed.
TESTS_OF_THE_ENGINE = [
    "op", "inplace", "saved_values", "func", "graph", "graph_memory", "hooks", "higher_order", "extend",
]  # fmt: skip

# Of the random programs, those that differ in what they execute.
PROGRAMS = ["complex_steps", "adjoint", "repeatable"]

# Two functions of NumPy that are easily mistaken for each other.
SWAPS = {
    "cos": "sin", "sin": "cos", "sinh": "cosh", "cosh": "sinh", "logical_and": "logical_or", "zeros": "ones",
    "logical_or": "logical_and", "ones": "zeros", "maximum": "minimum", "log": "exp", "isinf": "isfinite",
}  # fmt: skip
# Functions and methods that may be left out: f(x, …) → x, x.f(…) → x.
DROPS = {
    "flip", "cumsum", "cumprod", "exp", "transpose", "sqrt", "floor", "sign", "moveaxis", "swapaxes",
    "tril", "triu", "roll", "squeeze", "expand_dims", "keep_dims", "astype", "copy", "broadcast_to", "vecdot",
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
    ("minigrad/graph.py", "deliver", "present += gradient", "pending[parent] = gradient"),
    ("minigrad/graph.py", "deliver", "total = present + gradient", "total = gradient"),
    ("minigrad/graph.py", "deliver", "elif parent in owned and type", "elif type"),
    ("minigrad/graph.py", "deliver", "if fresh:\n", "if True:\n"),
    ("minigrad/graph.py", "deliver", "gradient, fresh = sum_to(gradient, like.shape), False", "pass"),
    ("minigrad/graph.py", "backward_pass", " and gradient.base is None", ""),
    ("minigrad/graph.py", "backward_pass", "fresh = gradient is not cotangent and type", "fresh = type"),
    ("minigrad/rules/indexing.py", "place", "np.add.at(result, index, g)", "result[index] = g"),
    ("minigrad/rules/indexing.py", "place", "np.add.at(result.reshape(-1), flat.reshape(-1), np.reshape(g, -1))",
     "result[index] = g"),
]  # fmt: skip
