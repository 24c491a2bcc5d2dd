"""Drawing a program: its leaves, then one step after the other, then outputs and their cotangents."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st
from strategies import generators, shapes

from .draft import KINDS, Draft, Unfit
from .program import Leaf, Program


def numbers(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Return numbers of both signs, of sizes in [0.2, 1.4], with four digits: short when printed, and exact."""
    return np.asarray(np.round(rng.uniform(0.2, 1.4, shape) * rng.choice([-1.0, 1.0], shape), 4))


@st.composite
def leaf(draw: Any, name: str, wanted: bool, related: Sequence[tuple[int, ...]]) -> Leaf:
    """Draw an input: often of a shape that there is already, so that operations find partners."""
    wide = draw(st.one_of(st.sampled_from(list(related)), shapes(max_size=12)) if related else shapes(max_size=12))
    values = numbers(draw(generators()), wide)
    layout = draw(st.sampled_from(["C", "transposed", "reversed", "stepped", "read-only", "stride 0"]))
    if not wide:
        layout = "C"
    match layout:
        case "transposed":
            made = f"np.array({values.T.tolist()}).reshape({wide[::-1]}).T"
        case "reversed":
            made = f"np.array({values[::-1].tolist()}).reshape({wide})[::-1]"
        case "stepped":
            made = f"np.array({np.repeat(values, 2, -1).tolist()}).reshape({(*wide[:-1], 2 * wide[-1])})[..., ::2]"
        case "stride 0":
            made = f"np.broadcast_to(np.array({values[:1].tolist()}).reshape({values[:1].shape}), {wide})"
        case "read-only":
            made = f"np.broadcast_to(np.array({values.tolist()}).reshape({wide}), {wide})"
        case _:
            made = f"np.array({values.tolist()}).reshape({wide})"
    return Leaf(name, made, wanted)


@st.composite
def programs(draw: Any, max_steps: int = 15) -> Program:
    """Draw a program; at least one of its outputs depends on a leaf whose gradient is wanted."""
    d = Draft(draw)
    leaves: list[Leaf] = []
    for i in range(draw(st.integers(1, 4))):
        wanted = i == 0 or draw(st.booleans())
        related = [a.shape for a in d.values.values()] + [a.shape[-1:] for a in d.values.values()]
        leaves.append(draw(leaf(f"x{i}", wanted, related)))
        array = leaves[-1].array()
        d.values[f"x{i}"] = array
        d.memory[f"x{i}"] = i
        d.kept.add(i)
        d.views.add(f"x{i}")
        if wanted:
            d.needs.add(f"x{i}")
    least = draw(st.sampled_from([k for k in (1, 4, 7, 10, 13) if k <= max_steps]))
    for name in draw(st.lists(st.sampled_from(list(KINDS)), min_size=least, max_size=max_steps)):
        try:
            KINDS[name](d)
        except Unfit:
            continue
    computed = [n for n in d.values if n in d.needs and n.startswith("v")] or ["x0"]
    chosen = draw(st.lists(st.sampled_from(computed[::-1]), min_size=1, max_size=3, unique=True))
    rng = draw(generators())
    cotangents = [numbers(rng, d.values[name].shape) for name in chosen]
    return Program(leaves, d.steps, chosen, cotangents)
