"""Steps that read, add or write at indices."""

from hypothesis import strategies as st
from strategies import generators

from .draft import MARGIN, Draft, Unfit, booleans, gap, kind, slices


@kind
def view(d: Draft) -> None:
    """A basic index, which gives a view."""
    a = d.operand(lambda a: a.ndim)
    index = slices(d, d.values[a])
    exact = index if "..." in index else f"{index}, ..."  # so that NumPy gives a view of one element too
    d.emit(f"{a}[{index}]", f"{a}[{exact}]", [a], linear=True, view=True)


@kind
def selection(d: Draft) -> None:
    """An index of arrays or masks, repeats included; gather, index_select, take_along_dim, sort, topk."""
    name = d.choose(["rows", "pairs", "mask", "select", "gather", "sort", "topk", "embedding", "along"])
    a = d.operand(lambda a: a.ndim and a.size)
    x = d.values[a]
    dim = d.dim(a)
    n = x.shape[dim]
    rng = d.draw(generators())
    match name:
        case "rows":
            rows = rng.integers(-x.shape[0], x.shape[0], 3).tolist()
            d.emit(f"{a}[{rows}]", f"{a}[{rows}]", [a], linear=True)
        case "embedding":
            rows = rng.integers(0, x.shape[0], (2, 2)).tolist()
            if x.ndim != 2:
                raise Unfit
            d.emit(f"F.embedding(mg.tensor({rows}), {a})", f"{a}[np.array({rows})]", [a], linear=True)
        case "pairs":
            if x.ndim < 2:
                raise Unfit
            i, j = rng.integers(0, x.shape[0], 4).tolist(), rng.integers(0, x.shape[-1], 4).tolist()
            index = f"{i}, ..., {j}"
            d.emit(f"{a}[{index}]", f"{a}[{index}]", [a], linear=True)
        case "mask":
            mask = booleans(d, x.shape)
            d.emit(f"{a}[mg.tensor({mask})]", f"{a}[np.array({mask})]", [a], linear=True)
        case "select":
            rows = rng.integers(0, n, d.choose([2, 1, 4])).tolist()
            d.emit(
                f"{a}.index_select({dim}, mg.tensor({rows}))",
                f"np.take({a}, {rows}, axis={dim})",
                [a],
                linear=True,
            )
        case "gather" | "along":
            wide = list(x.shape)
            wide[dim] = d.choose([2, 1, 3])
            rows = rng.integers(0, n, wide).tolist()
            numpy = f"np.take_along_axis({a}, np.array({rows}), axis={dim})"
            mine = f"{a}.gather({dim}, mg.tensor({rows}))"
            if name == "along":
                mine = f"{a}.take_along_dim(mg.tensor({rows}), {dim})"
            d.emit(mine, numpy, [a], linear=True)
        case _:
            if gap(x) < MARGIN:
                raise Unfit
            descending = name == "topk" or d.draw(st.booleans())
            ordered = f"ordered({a}, {dim}, {descending})"
            if name == "sort":
                d.emit(f"{a}.sort({dim}, descending={descending}).values", ordered, [a], linear=True)
            else:
                k = d.choose(range(1, n + 1))
                mine = f"{a}.topk({k}, {dim}).values"
                d.emit(mine, f"np.take({ordered}, range({k}), axis={dim})", [a], linear=True)


@kind
def placed(d: Draft) -> None:
    """Out of place: values added or written at indices that may repeat, or masked."""
    name = d.choose(["scatter_add", "scatter", "index_add", "masked_fill"])
    a = d.operand(lambda a: a.ndim and a.size)
    x = d.values[a]
    dim = d.dim(a)
    n = x.shape[dim]
    rng = d.draw(generators())
    if name == "masked_fill":
        mask = booleans(d, x.shape)
        d.emit(f"{a}.masked_fill(mg.tensor({mask}), 0.5)", f"np.where({mask}, 0.5, {a})", [a])
        return
    if name == "index_add":
        b = d.operand(lambda b: b.shape == x.shape)
        rows = rng.integers(0, n, n).tolist()
        numpy = f"added_at({a}, {dim}, {rows}, {b})"
        d.emit(f"{a}.index_add({dim}, mg.tensor({rows}), {b})", numpy, [a, b], linear=True)
        return
    b = d.operand(lambda b: b.shape == x.shape)
    rows = rng.integers(0, n, x.shape).tolist()
    numpy = f"scattered({a}, {dim}, np.array({rows}), {b}, {name == 'scatter_add'})"
    d.emit(f"{a}.{name}({dim}, mg.tensor({rows}), {b})", numpy, [a, b])
