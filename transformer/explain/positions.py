"""Chapter 8: where a token stands."""

from __future__ import annotations

import math
from typing import Any

import minigrad as mg
from minigrad import Tensor
from transformer.corpus import DataError
from transformer.embedding import sinusoids
from transformer.evaluation import position_losses
from transformer.explain.material import Material, Subject
from transformer.explain.packing import packed

TIMES_CONTEXT = 4  # how far the loss is measured
MEASURED_WINDOWS = 24  # of held-out text: at least so many, if it is long enough


def positions(subject: Subject) -> dict[str, Any]:
    """Return the fingerprints, how they overlap, what a swap of two tokens changes, and the loss far out."""
    config = subject.config
    with mg.no_grad():
        table = subject.model.embedding.positions(0, config.context)  # (context, d)
    overlaps = table @ table.T  # (context, context)
    sinusoidal = config.positions == "sinusoidal"
    return {
        "table": packed(table),
        "overlap": [overlap_at(overlaps, k) for k in range(config.context)],
        "rotation": rotation_error(config.d_model, config.context) if sinusoidal else None,
        "closest": closest_rows(table),
        "swap": swap(subject),
        "beyond": subject.material.once(loss_by_position),
    }


def overlap_at(overlaps: Tensor, k: int) -> dict[str, float]:
    """Return the mean, least and greatest product of two fingerprints that are k positions apart."""
    n = len(overlaps)
    values = overlaps[mg.arange(n - k), mg.arange(k, n)]
    return {name: float(getattr(values, name)().item()) for name in ("mean", "min", "max")}


def closest_rows(table: Tensor) -> float:
    """Return the smallest distance between two rows: 0 if two positions had one fingerprint."""
    if len(table) < 2:
        return 0.0
    squares = ((table.unsqueeze(1) - table.unsqueeze(0)) ** 2).sum(-1)  # (T, T)
    return math.sqrt(float((squares + mg.eye(len(table)) * 1e30).min().item()))


def rotation_error(d_model: int, n_positions: int) -> float:
    """Return how far PE(p + k) is from R_k · PE(p), at most, over all p and k, in float64.

    R_k turns the i-th pair of dimensions by k / 10000^(2i/d), whatever p is.
    """
    table = sinusoids(2 * n_positions, d_model, mg.float64)  # (2 T, d)
    sine, cosine = table[:, 0::2], table[:, 1::2]  # (2 T, d / 2): also sin and cos of the angles that R_k turns by
    worst = 0.0
    for k in range(n_positions):
        s, c = sine[:n_positions], cosine[:n_positions]
        turned = mg.stack([s * cosine[k] + c * sine[k], c * cosine[k] - s * sine[k]])  # (2, T, d / 2)
        wanted = mg.stack([sine[k : k + n_positions], cosine[k : k + n_positions]])
        worst = max(worst, float((turned - wanted).abs().max().item()))
    return worst


def swap(subject: Subject) -> dict[str, Any]:
    """Swap two tokens and return how far the first block moves the last token, with positions and without."""
    ids = subject.ids
    pairs = [(i, j) for i in range(len(ids) - 1) for j in range(i + 1, len(ids) - 1) if ids[i] != ids[j]]
    if not pairs:
        return {"missing": "it takes two different tokens before the last one to swap"}
    i, j = max(pairs, key=lambda pair: pair[1] - pair[0])
    swapped = list(ids)
    swapped[i], swapped[j] = ids[j], ids[i]
    result: dict[str, Any] = {"places": [i, j], "tokens": [subject.tokenizer.token_text(id) for id in swapped]}
    for name, with_positions in (("without", False), ("with", True)):
        outs = [first_block(subject, order, with_positions)[-1] for order in (ids, swapped)]
        moved = (outs[1] - outs[0]).norm() / outs[0].norm()
        result[name] = float(moved.item())
    return result


def first_block(subject: Subject, ids: list[int], with_positions: bool) -> Tensor:
    """Return what block 1 makes of a sequence (T, d), with its positions or without."""
    embedding = subject.model.embedding
    with mg.no_grad():
        x = embedding.token(mg.tensor([ids])) * math.sqrt(subject.config.d_model)  # (1, T, d)
        if with_positions:
            x = x + embedding.positions(0, len(ids))
        out: Tensor = subject.model.blocks[0](x)[0]
    return out


def loss_by_position(material: Material) -> dict[str, Any]:
    """Return the mean loss at each position (nats) of held-out text, to four times the context; or why not."""
    config = material.model.config
    length = TIMES_CONTEXT * config.context
    if config.positions == "learned":
        return {"missing": f"this model's positions are learned, and end at {config.context}: it can't go further"}
    try:
        ids = material.tokenizer.encode(material.texts[1])
    except (DataError, ValueError) as error:
        return {"missing": str(error)}
    if len(ids) < length + 1:
        return {"missing": f"the held-out text has {len(ids):,} tokens, fewer than {length + 1:,}"}
    losses = position_losses(material.model, mg.tensor(ids), length, MEASURED_WINDOWS * length)  # (W, 4 T)
    return {"context": config.context, "windows": len(losses), "losses": packed(losses.mean(0))}
