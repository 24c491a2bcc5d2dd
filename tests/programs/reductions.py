"""Steps that sum, multiply, compare or accumulate along a dimension."""

import numpy as np
from hypothesis import strategies as st

from .draft import MARGIN, Draft, Unfit, gap, kind


@kind
def reduction(d: Draft) -> None:
    """Sums, products and extremes over one dim, or all."""
    reduce(d, d.choose(["sum", "mean", "amax", "amin", "max", "min", "prod", "average"]))


@kind
def statistics(d: Draft) -> None:
    """Spreads and norms over one dim, or all."""
    reduce(d, d.choose(["var", "std", "logsumexp", "norm", "norm1"]))


def reduce(d: Draft, name: str) -> None:
    """Append one of the reductions."""
    a = d.operand()
    x = d.values[a]
    dim, keepdim = d.dim(a, none=name not in ("max", "min")), d.draw(st.booleans())
    if name not in ("sum", "prod") and not (x.size if dim is None else x.shape[dim]):
        raise Unfit
    options = f"dim={dim}, keepdim={keepdim}"
    numpy_options = f"axis={dim}, keepdims={keepdim}"
    match name:
        case "sum" | "mean":
            d.emit(f"{a}.{name}({options})", f"{a}.{name}({numpy_options})", [a], linear=True)
        case "average":
            mine = f"{a}.sum(dim=(0, -1), keepdim={keepdim})"
            if x.ndim < 2:
                raise Unfit
            d.emit(mine, f"{a}.sum(axis=(0, -1), keepdims={keepdim})", [a], linear=True)
        case "amax" | "amin" | "max" | "min":
            if gap(x) < MARGIN or not x.size:
                raise Unfit
            mine = f"{a}.{name}({options})" + (".values" if name in ("max", "min") else "")
            d.emit(mine, f"extreme({a}, {dim}, {keepdim}, {1 if 'max' in name else -1})", [a])
        case "prod":
            d.emit(f"{a}.prod({options})", f"{a}.prod({numpy_options})", [a])
        case "var" | "std":
            correction = d.choose([1, 0])
            n = x.size if dim is None else x.shape[dim]
            if n <= correction:
                raise Unfit
            variance = f"variance({a}, {dim}, {correction}, {keepdim})"
            if name == "std":
                if not np.all(np.var(x, axis=dim) > 0.04):
                    raise Unfit
                variance = f"np.sqrt({variance})"
            d.emit(f"{a}.{name}({options}, correction={correction})", variance, [a])
        case "logsumexp":
            over = dim if dim is not None else tuple(range(x.ndim))
            mine = f"mg.logsumexp({a}, dim={over}, keepdim={keepdim})"
            d.emit(mine, f"logsumexp({a}, {over}, {keepdim})", [a])
        case "norm":
            if not np.all(np.sum(x * x, axis=dim) > 0.04):
                raise Unfit
            d.emit(f"mg.norm({a}, {options})", f"np.sqrt(({a} * {a}).sum({numpy_options}))", [a])
        case _:
            if not np.all(np.abs(x) > MARGIN):
                raise Unfit
            d.emit(f"mg.norm({a}, 1, {options})", f"absolute({a}).sum({numpy_options})", [a])


@kind
def cumulation(d: Draft) -> None:
    """Partial sums and products along a dim."""
    name = d.choose(["cumsum", "cumprod"])
    a = d.operand(lambda a: a.ndim)
    dim = d.dim(a)
    d.emit(f"{a}.{name}({dim})", f"cumulated({a}, {dim}, {name == 'cumprod'})", [a], linear=name == "cumsum")
