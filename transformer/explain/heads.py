"""Chapter 7: several heads, and what each adds."""

from __future__ import annotations

from typing import Any

import minigrad as mg
from minigrad import Tensor
from transformer.capture import Capture
from transformer.explain.material import Material, Subject, stages
from transformer.explain.packing import packed
from transformer.model import Transformer

REPEATED = 12  # different tokens of a random sequence that is read twice
SEQUENCES = 16  # random ones, of which the mean is taken


def heads(subject: Subject) -> dict[str, Any]:
    """Return every head's patterns and detector scores at each snapshot, and what it adds to each token."""
    snapshots = []
    for (_, cache), repeated in zip(subject.snapshot_runs, subject.material.once(repeated_scores), strict=True):
        patterns = all_patterns(cache, subject.config.n_layers)  # (L, H, T, T)
        snapshots.append(
            {
                "patterns": packed(
                    triangle(patterns) if subject.config.causal else patterns.flatten(2), "float16"
                ),
                "detectors": {**text_scores(patterns), **repeated},
            }
        )
    added, difference = contributions(subject)
    return {
        "snapshots": snapshots,
        "added": packed(added, "float16"),  # (L, H, T, d)
        "added_difference": difference,
        "independence": independence(subject),
        "repeated": {"sequences": SEQUENCES, "tokens": repeated_length(subject.material.model)},
    }


def all_patterns(cache: dict[str, Tensor], n_layers: int) -> Tensor:
    """Return the attention weights of all heads (L, H, T, T)."""
    return mg.stack([cache[f"blocks.{i}.attention.pattern"] for i in range(n_layers)])


def triangle(patterns: Tensor) -> Tensor:
    """Return the weights that may be other than 0, row by row: (L, H, T, T) → (L, H, T · (T + 1) / 2)."""
    n = patterns.shape[-1]
    rows, columns = mg.tril_indices(n, n).unbind()
    return patterns[:, :, rows, columns]


def text_scores(patterns: Tensor) -> dict[str, list[list[float]]]:
    """Return for each layer and head the mean weight on the token before, on the first, and on the token itself.

    Over the queries from the third on, for which the three are different tokens.
    """
    n = patterns.shape[-1]
    if n < 3:
        return {}
    t = mg.arange(2, n)
    return {
        "previous": patterns[:, :, t, t - 1].mean(-1).tolist(),
        "first": patterns[:, :, t, 0].mean(-1).tolist(),
        "itself": patterns[:, :, t, t].mean(-1).tolist(),
    }


def repeated_length(model: Transformer) -> int:
    """Return how many tokens a random sequence has, read twice."""
    return 2 * min(REPEATED, model.config.vocab_size, model.config.context // 2)


def repeated_scores(material: Material) -> list[dict[str, list[list[float]]]]:
    """Return at each snapshot how much each head looks back by content, on random sequences that are read twice.

    In the second reading every token has occurred once.  ``same``: the weight on that earlier occurrence;
    ``induction``: the weight on the token after it, which is what comes next again.
    """
    n = repeated_length(material.model) // 2
    with mg.fork_rng(20170612):
        rows = [mg.randperm(material.model.config.vocab_size)[:n] for _ in range(SEQUENCES)]
    ids = mg.stack([mg.cat([row, row]) for row in rows])  # (B, 2 n)
    t = mg.arange(n, 2 * n)
    found = []
    for snapshot in material.snapshots:
        with mg.no_grad():
            _, cache = snapshot.model.run_with_cache(ids)
        patterns = all_patterns(cache, material.model.config.n_layers)  # (L, B, H, T, T)
        found.append(
            {
                "same": patterns[..., t, t - n].mean(-1).mean(1).tolist(),
                "induction": patterns[..., t, t - n + 1].mean(-1).mean(1).tolist(),
            }
        )
    return found


def contributions(subject: Subject) -> tuple[Tensor, float]:
    """Return z · W_O of every head alone (L, H, T, d), and how far their sum is from what the module gave."""
    d_k, n_heads = subject.config.d_k, subject.config.n_heads
    layers, difference = [], 0.0
    for i, block in enumerate(subject.model.blocks):
        z = subject.cache[f"blocks.{i}.attention.z"]  # (H, T, d_k)
        weight = block.attention.W_O.weight.detach()  # (d, H · d_k)
        each = mg.stack([z[h] @ weight[:, h * d_k : (h + 1) * d_k].T for h in range(n_heads)])  # (H, T, d)
        total = each.sum(0)
        if block.attention.W_O.bias is not None:
            total = total + block.attention.W_O.bias.detach()
        out = subject.cache[f"blocks.{i}.attention.out"]
        difference = max(difference, float((total - out).abs().max().item()))
        layers.append(each)
    return mg.stack(layers), difference


def independence(subject: Subject) -> dict[str, Any] | None:
    """Set the first head's query matrix to 0 for one pass; return the largest change in it and in the others."""
    if subject.config.n_heads < 2:
        return None
    block = subject.model.blocks[0]
    d_k, weight = subject.config.d_k, block.attention.W_Q.weight
    x = stages(subject.cache, subject.config)[1].unsqueeze(0)  # (1, T, d): the input of block 1
    if subject.config.norm == "pre":
        with mg.no_grad():
            x = block.norm_attention(x)
    kept = weight.detach().clone()
    results = []
    try:
        for changed in (False, True):
            with mg.no_grad():
                if changed:
                    weight[:d_k] = 0.0
                seen: dict[str, Tensor] = {}
                block.attention(x, Capture(seen))
                results.append(seen["z"][0])  # (H, T, d_k)
    finally:
        with mg.no_grad():
            weight.copy_(kept)
    changes = (results[1] - results[0]).abs().amax(-1).amax(-1).tolist()
    return {"changed": changes[0], "others": max(changes[1:])}
