"""What of PyTorch is covered: ``python tests/pytorch_coverage.py`` compares the two and prints a Markdown table.

Compared are the public functions of ``torch`` and ``torch.nn.functional`` and the methods of ``torch.Tensor`` that
are documented there, classes and decorators apart.  Left out are families that are out of scope as a whole (by
the words in a name: ``FAMILIES``).  A name counts as covered if minigrad has it; that it means the same is what
the parity tests show.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import minigrad as mg

FAMILIES = {
    "complex numbers": ("adjoint angle bfloat16 cdouble cfloat chalf complex conj imag polar real resolve sgn"),
    "sparse, nested and quantised tensors": (
        "bsc bsr ccol choose coalesce coalesced col coo crow csc csr dense dequantize fake hspmm indices int "
        "nested padded q qscheme quantize quantized row smm sparse sspaddmm values"
    ),
    "devices and backends": (
        "autocast cuda cudnn deterministic device fbgemm float32 hip interop ipu memory miopen mkldnn mps "
        "mtia pin pinned precision shared storage stream thread threads vulkan warn xpu"
    ),
    "names of dimensions": "align names refine rename",
    "tracing, compilation, transforms": (
        "apply compile compiled cond dispatch distributed export fork function hash inference jit map merge "
        "parse script subclass sym torch trace unify vmap wait while"
    ),
    "signal processing and linear algebra": (
        "chain cholesky det eig fft geqrf householder inverse istft linalg lobpcg logdet lstsq lu matrix "
        "orgqr ormqr pca pinverse qr renorm slogdet solve stft svd triangular window"
    ),
    "convolutions, pooling, recurrent and image layers": (
        "affine alpha bag channel conv conv1d conv2d conv3d ctc dropout1d dropout2d dropout3d feature fold "
        "grid group gru instance interpolate local lstm multi native pixel pool pool1d pool2d pool3d rnn tbc "
        "unfold upsample"
    ),
    "special functions and distributions": (
        "bessel binomial cauchy digamma dirichlet entr erfinv exponential geometric i0 igamma igammac lgamma "
        "mvlgamma normal poisson polygamma random special"
    ),
    "memory layout and unsafe access": (
        "buffer const copy data dlpack file format frombuffer named permuted ptr put resize set stride "
        "strided unsafe version vitals"
    ),
    "the graph's machinery": "backward grad hook hooks module new retain retains",
}
OUT_OF_SCOPE = {word for words in FAMILIES.values() for word in words.split()}

# Names that a word above would leave out, and that belong to the operations all the same.
KEPT = {
    *(
        "backward",
        "copy_",
        "enable_grad",
        "frombuffer",
        "int",
        "is_grad_enabled",
        "manual_seed",
        "new_full",
        "new_ones",
    ),
    *("new_tensor", "new_zeros", "no_grad", "normal", "normal_", "register_hook", "requires_grad_", "retain_grad"),
    *("set_grad_enabled", "stride", "trace"),
}

# Names under which minigrad has the same by another spelling, or something else on purpose, with the reason.
DIFFERING = {
    "dtype": "dtypes are NumPy's",
    "softmax": "a row that is all −inf gives zeros",
    "logsumexp": "gradient 0 where all is −inf",
    "cross_entropy": "0 where every target is ignored",
    "nll_loss": "0 where every target is ignored",
    "scaled_dot_product_attention": "a query without keys gives zeros, also with gradients",
    "scatter": "where an index repeats, only what stays has a gradient",
    "mean": "integers give floats",
    "var": "integers give floats",
    "std": "integers give floats",
    "sort": "always stable",
    "argsort": "always stable",
    "size": "a tuple of ints",
    "cuda": "RuntimeError: only the CPU",
    "unique": "of elements, not of slices along a dim",
    "searchsorted": "in one sorted vector",
    "pad": "by a constant",
}


def operations(owner: Any) -> list[str]:
    """Return the names of the documented operations of a module or class of PyTorch."""
    found = []
    for name in sorted(dir(owner)):
        value = getattr(owner, name, None)
        if name.startswith("_") or not callable(value) or isinstance(value, type):
            continue
        if name not in KEPT and not OUT_OF_SCOPE.isdisjoint(name.split("_")):
            continue
        if name not in getattr(owner, "__all__", [name]):
            continue
        if not (getattr(value, "__doc__", None) or "").strip():
            continue
        if getattr(value, "__module__", None) in ("typing", "collections", "functools", "builtins"):
            continue
        found.append(name)
    return found


def report(torch: Any) -> str:
    """Return the comparison as Markdown: for each namespace what is covered, what differs, and what is absent."""
    pairs = [
        ("torch", torch, mg),
        ("torch.nn.functional", torch.nn.functional, mg.nn.functional),
        ("torch.Tensor", torch.Tensor, mg.Tensor),
    ]
    rows = ["| namespace | operations | covered | differing on purpose | absent |", "|---|---|---|---|---|"]
    details = []
    for title, theirs, ours in pairs:
        names = operations(theirs)
        absent = [name for name in names if not hasattr(ours, name)]
        differing = [name for name in names if name in DIFFERING and name not in absent]
        covered = len(names) - len(absent) - len(differing)
        rows.append(f"| `{title}` | {len(names)} | {covered} | {len(differing)} | {len(absent)} |")
        details.append(f"## {title}\n")
        details += [f"- `{name}` differs: {DIFFERING[name]}" for name in differing]
        details.append(f"\nAbsent: {', '.join(f'`{name}`' for name in absent)}.\n")
    scope = f"Counted are documented operations. Out of scope as a whole: {'; '.join(FAMILIES)}."
    return "\n".join(
        [
            f"# Coverage of PyTorch {torch.__version__} by minigrad {mg.__version__}\n",
            scope,
            "",
            *rows,
            "",
            *details,
        ]
    )


def main() -> int:
    """Print the comparison; 2 if PyTorch is not installed."""
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        print(
            "the coverage table compares with PyTorch, which is not installed: pip install torch", file=sys.stderr
        )
        return 2
    print(report(torch))
    return 0


if __name__ == "__main__":
    sys.exit(main())
