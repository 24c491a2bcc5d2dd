"""Steps that move elements, cut tensors up and join them."""

from hypothesis import strategies as st

from .draft import Draft, Unfit, kind


@kind
def shape(d: Draft) -> None:
    """Elements moved, nothing computed; most of these are views."""
    names = "permute transpose unsqueeze squeeze expand reshape flip roll tril triu repeat diagonal pad T"
    name = d.choose(names.split())
    a = d.operand(lambda a: a.ndim)
    x = d.values[a]
    n = x.ndim
    match name:
        case "permute":
            order = tuple(d.draw(st.permutations(range(n))))
            d.emit(f"{a}.permute{order}", f"np.transpose({a}, {order})", [a], linear=True, view=True)
        case "T":
            d.emit(f"{a}.permute({list(range(n))[::-1]})", f"{a}.T", [a], linear=True, view=True)
        case "transpose":
            i, j = d.dim(a), d.dim(a)
            d.emit(f"{a}.transpose({i}, {j})", f"np.swapaxes({a}, {i}, {j})", [a], linear=True, view=True)
        case "unsqueeze":
            i = d.choose(range(-n - 1, n + 1))
            d.emit(f"{a}.unsqueeze({i})", f"np.expand_dims({a}, {i})", [a], linear=True, view=True)
        case "squeeze":
            d.emit(f"{a}.squeeze()", f"np.squeeze({a})", [a], linear=True, view=True)
        case "expand":
            wide = (2, *(k if k != 1 else d.choose([1, 2, 3]) for k in x.shape))
            made = d.emit(f"{a}.expand{wide}", f"np.broadcast_to({a}, {wide})", [a], linear=True, view=True)
            d.views.update(made)
        case "reshape":
            factors = [k for k in range(1, x.size + 1) if x.size % k == 0]
            if not factors:
                raise Unfit
            k = d.choose(factors)
            wide = d.choose([(x.size,), (k, x.size // k), (1, x.size, 1)])
            d.emit(f"{a}.reshape{wide}", f"np.reshape({a}, {wide})", [a], linear=True, view=True, unsure=True)
        case "flip":
            i = d.dim(a)
            d.emit(f"{a}.flip({i})", f"np.flip({a}, {i}) + 0.0", [a], linear=True)
        case "roll":
            i, k = d.dim(a), d.choose([1, -2])
            d.emit(f"{a}.roll({k}, {i})", f"np.roll({a}, {k}, {i})", [a], linear=True)
        case "tril" | "triu":
            if n < 2:
                raise Unfit
            k = d.choose([0, 1, -1])
            d.emit(f"{a}.{name}({k})", f"np.{name}({a}, {k})", [a], linear=True)
        case "repeat":
            times = (2, *(d.choose([1, 2]) for _ in range(n - 1)))
            d.emit(f"{a}.repeat{times}", f"np.tile({a}, {times})", [a], linear=True)
        case "diagonal":
            if n < 2:
                raise Unfit
            k = d.choose([0, 1, -1])
            mine, numpy = f"{a}.diagonal({k}, 0, {n - 1})", f"np.diagonal({a}, {k}, 0, {n - 1})"
            d.views.update(d.emit(mine, numpy, [a], linear=True, view=True))
        case _:
            before, after = d.choose([0, 1]), d.choose([1, 0, 2])
            mine = f"F.pad({a}, ({before}, {after}), value=0.5)"
            d.emit(mine, f"padded({a}, {before}, {after})", [a], linear=True)


@kind
def joined(d: Draft) -> None:
    """Several tensors joined; the same one twice as well."""
    a = d.operand()
    x = d.values[a]
    b = d.operand(lambda b: b.shape == x.shape)
    if x.ndim and d.draw(st.booleans()):
        dim = d.dim(a)
        mine = f"mg.cat([{a}, {b}, {a}], dim={dim})"
        d.emit(mine, f"np.concatenate([{a}, {b}, {a}], axis={dim})", [a, b], linear=True)
    else:
        dim = d.choose(range(-x.ndim - 1, x.ndim + 1))
        d.emit(f"mg.stack([{a}, {b}], dim={dim})", f"np.stack([{a}, {b}], axis={dim})", [a, b], linear=True)


@kind
def pieces(d: Draft) -> None:
    """Several results of one operation, two of which are used further."""
    a = d.operand(lambda a: a.ndim)
    x = d.values[a]
    dim = d.dim(a)
    n = x.shape[dim]
    before = (slice(None),) * (dim % x.ndim)
    if n >= 2 and d.draw(st.booleans()):
        parts = [f"{a}[{(*before, k, ...)}]" for k in (0, n - 1)]
        d.emit(f"{a}.unbind({dim})[::{n - 1}]", parts, [a], results=2, linear=True, view=True)
    elif n >= 3:
        k = d.choose(range(1, n - 1))
        parts = [f"{a}[{(*before, slice(0, k))}]", f"{a}[{(*before, slice(k, n - 1))}]"]
        mine = f"mg.split({a}, [{k}, {n - 1 - k}, 1], dim={dim})[:2]"
        d.emit(mine, parts, [a], results=2, linear=True, view=True)
    else:
        raise Unfit
