"""Steps that call a fused kernel."""

import numpy as np
from hypothesis import strategies as st
from strategies import generators

from .draft import Draft, Unfit, booleans, kind


@kind
def kernel(d: Draft) -> None:
    """The fused kernels."""
    name = d.choose(["softmax", "log_softmax", "linear", "layer_norm", "attention", "cross_entropy"])
    a = d.operand(lambda a: a.size and (a.ndim == 2 if name == "cross_entropy" else a.ndim))
    x = d.values[a]
    match name:
        case "softmax":
            dim = d.dim(a)
            d.emit(f"{a}.softmax({dim})", f"softmax({a}, {dim})", [a])
        case "log_softmax":
            dim = d.dim(a)
            d.emit(f"{a}.log_softmax({dim})", f"np.log(softmax({a}, {dim}))", [a])
        case "linear":
            w = d.operand(lambda w: w.ndim == 2 and w.shape[1] == x.shape[-1])
            biases = [n for n, b in d.values.items() if b.shape == (d.values[w].shape[0],)]
            b = d.choose([*biases, None])
            numpy = f"np.einsum('...i,oi->...o', {a}, {w})" + ("" if b is None else f" + {b}")
            d.emit(f"F.linear({a}, {w}, {b})", numpy, [a, w, *([b] if b else [])])
        case "layer_norm":
            vectors = [n for n, b in d.values.items() if b.shape == x.shape[-1:]]
            w, b = d.choose([None, *vectors]), d.choose([None, *vectors])
            mine = f"F.layer_norm({a}, ({x.shape[-1]},), {w}, {b}, 0.1)"
            d.emit(mine, f"layer_norm({a}, {w}, {b})", [a, *(v for v in (w, b) if v)])
        case "attention":
            if x.ndim < 2:
                raise Unfit

            def fits(k: np.ndarray) -> bool:
                return (
                    k.ndim == x.ndim and k.shape[:-2] == x.shape[:-2] and k.shape[-1] == x.shape[-1] and k.size > 0
                )

            k = d.operand(fits)
            v = d.operand(lambda v: v.ndim == x.ndim and v.shape[:-1] == d.values[k].shape[:-1] and v.size)
            causal = d.draw(st.booleans())
            mask = None if causal or d.draw(st.booleans()) else booleans(d, (x.shape[-2], d.values[k].shape[-2]))
            shown = None if mask is None else f"mg.tensor({mask})"
            mine = f"F.scaled_dot_product_attention({a}, {k}, {v}, {shown}, is_causal={causal})"
            d.emit(mine, f"attention({a}, {k}, {v}, {causal}, {mask})", [a, k, v])
        case _:
            target = d.draw(generators()).integers(0, x.shape[1], x.shape[0]).tolist()
            ignored = d.choose([-100, 0])
            how, smoothing = d.choose(["mean", "sum", "none"]), d.choose([0.0, 0.1])
            mine = f"F.cross_entropy({a}, mg.tensor({target}), None, {ignored}, '{how}', {smoothing})"
            d.emit(mine, f"cross_entropy({a}, {target}, {ignored}, '{how}', {smoothing})", [a])
