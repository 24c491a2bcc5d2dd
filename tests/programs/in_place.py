"""Steps that write into memory."""

import numpy as np
from hypothesis import strategies as st
from strategies import generators

from .draft import Draft, Unfit, booleans, kind, slices


def writable(d: Draft) -> str:
    """Draw memory that no rule needs: of a value so far, or of a copy made for the purpose; or a view of it."""
    free = [n for n, m in d.memory.items() if m not in d.kept and n not in d.views]
    if free and d.draw(st.booleans()):
        target = d.choose(free)
    elif d.draw(st.integers(0, 3)):
        a = d.operand()
        (target,) = d.emit(f"{a}.clone()", f"np.array({a})", [a], linear=True)
    else:
        sizes = d.choose([(3,), (2, 3), (2, 2), ()])
        (target,) = d.emit(f"mg.zeros{sizes or '(())'}.double()", f"zeros{sizes}", [], linear=True)
    if d.values[target].ndim and d.draw(st.booleans()):
        index = slices(d, d.values[target])
        exact = index if "..." in index else f"{index}, ..."
        (target,) = d.emit(f"{target}[{index}]", f"{target}[{exact}]", [target], linear=True, view=True)
    return target


@kind
def in_place(d: Draft) -> None:
    """A write into memory, whole or in part, also through views."""
    t = writable(d)
    x = d.values[t]
    name = d.choose(
        ["+=", "-=", "*=", "/=", "[]=", "rows=", "mask=", "copy_", "masked_fill_", "zero_", "tanh_", "index_add_"]
    )

    def into(b: np.ndarray) -> bool:
        try:
            return np.broadcast_shapes(b.shape, x.shape) == x.shape
        except ValueError:
            return False

    match name:
        case "+=" | "-=" | "*=" | "/=":
            b = d.operand(into)
            y = d.inside(b, "not zero") if name == "/=" else b
            if y != b and d.memory[b] == d.memory[t]:
                raise Unfit  # y is computed from what is about to be overwritten, and its rule needs that
            d.write(t, f"{t} {name} {y}", f"{t}[...] = {t} {name[0]} {y}", [b], saves=name in ("*=", "/="))
        case "[]=":
            if not x.ndim:
                raise Unfit
            index = slices(d, x)
            part = x[eval(f"np.s_[{index}]", {"np": np})]
            b = d.operand(lambda b: np.shape(part) == b.shape or not b.ndim)
            d.write(t, f"{t}[{index}] = {b}", f"{t}[{index}] = {b}", [b])
        case "rows=":
            if not x.ndim or not x.size:
                raise Unfit
            rows = d.draw(generators()).integers(0, len(x), 2).tolist()
            b = d.operand(lambda b: not b.ndim or b.shape == (2, *x.shape[1:]))
            d.write(t, f"{t}[{rows}] = {b}", f"{t}[...] = written({t}, {rows}, {b})", [b])
        case "mask=" | "masked_fill_":
            mask = booleans(d, x.shape)
            if name == "mask=":
                b = d.operand(lambda b: not b.ndim)
                d.write(t, f"{t}[mg.tensor({mask})] = {b}", f"{t}[np.array({mask})] = {b}", [b])
            else:
                mine = f"{t}.masked_fill_(mg.tensor({mask}), -0.25)"
                d.write(t, mine, f"{t}[np.array({mask})] = -0.25", [])
        case "copy_":
            b = d.operand(into)
            d.write(t, f"{t}.copy_({b})", f"{t}[...] = {b}", [b])
        case "zero_":
            d.write(t, f"{t}.zero_()", f"{t}[...] = 0", [])
        case "tanh_":
            d.write(t, f"{t}.tanh_()", f"{t}[...] = np.tanh({t})", [])
            d.kept.add(d.memory[t])
        case _:
            if not x.ndim or not x.size:
                raise Unfit
            rows = d.draw(generators()).integers(0, len(x), len(x)).tolist()
            b = d.operand(lambda b: b.shape == x.shape)
            mine = f"{t}.index_add_(0, mg.tensor({rows}), {b})"
            d.write(t, mine, f"{t}[...] = added_at({t}, 0, {rows}, {b})", [b])
