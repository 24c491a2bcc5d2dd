"""Chapters 5 to 7: queries, keys and values; from scores to weights; several heads and what each adds."""

from __future__ import annotations

import math
from typing import Any

import minigrad as mg
from minigrad import Tensor
from transformer.capture import Capture
from transformer.explain.material import Material, Subject
from transformer.explain.packing import packed
from transformer.model import Transformer

BINS = 10  # of the histogram of largest weights
REPEATED = 12  # different tokens of a random sequence that is read twice
SEQUENCES = 16  # random ones, of which the mean is taken


def projections(subject: Subject) -> dict[str, Any]:
    """Return how many numbers the projections have, and those of one head.

    The vectors themselves are among the captured tensors.  The page opens with that head.
    """
    config = subject.config
    bias = config.d_k if config.bias else 0
    return {
        "numbers_each": config.d_model * config.d_k + bias,
        "weights": [head_weights(subject, 0, most_decided_head(subject))],
    }


def most_decided_head(subject: Subject) -> int:
    """Return the head of the first block whose queries give most weight to a single key, on average."""
    pattern = subject.cache["blocks.0.attention.pattern"]  # (H, T, T)
    return int(pattern.amax(-1).mean(-1).argmax().item())


def head_weights(subject: Subject, layer: int, head: int) -> dict[str, Any]:
    """Return the three matrices of one head, (d_k, d) each, and their biases (d_k,) if there are any."""
    attention, d_k = subject.model.blocks[layer].attention, subject.config.d_k
    rows = slice(head * d_k, (head + 1) * d_k)
    matrices = {"q": attention.W_Q, "k": attention.W_K, "v": attention.W_V}
    return {
        "layer": layer,
        "head": head,
        **{name: packed(projection.weight.detach()[rows]) for name, projection in matrices.items()},
        **{
            f"{name}_bias": packed(projection.bias.detach()[rows])
            for name, projection in matrices.items()
            if projection.bias is not None
        },
    }


def scores(subject: Subject) -> dict[str, Any]:
    """Return what the division by √d_k does, and that one pass over all tokens equals passes one by one."""
    return {
        "random": random_scores(subject.config.d_k),
        "saturation": saturation(subject),
        "one_by_one": one_by_one(subject),
    }


def random_scores(d_k: int) -> dict[str, float]:
    """Return the standard deviation of q · k for random unit-normal q and k, before and after dividing by √d_k."""
    generator = mg.Generator().manual_seed(1)
    products = (mg.randn(4000, d_k, generator=generator) * mg.randn(4000, d_k, generator=generator)).sum(1)
    return {"raw": float(products.std().item()), "scaled": float((products / math.sqrt(d_k)).std().item())}


def saturation(subject: Subject) -> dict[str, Any]:
    """Return how peaked the model's attention is with and without the division, and the gradient that is left.

    Over all blocks, heads and rows of at least 4 allowed keys: how the rows' largest weights are spread over ten
    equal bins, and the mean of Σ p (1 − p), which is the size of softmax's own derivative.
    """
    result: dict[str, Any] = {"rows": 0}
    for name, factor in (("scaled", 1.0), ("unscaled", math.sqrt(subject.config.d_k))):
        peaks: list[float] = []
        flows: list[float] = []
        for layer in range(subject.config.n_layers):
            scores = subject.cache[f"blocks.{layer}.attention.scores"].double()  # (H, T, T)
            pattern = (scores * factor).softmax(-1)  # (H, T, T)
            rows = pattern[:, 3:] if subject.config.causal else pattern
            peaks += rows.amax(-1).flatten().tolist()
            flows += (rows * (1 - rows)).sum(-1).flatten().tolist()
        counts = [0] * BINS
        for peak in peaks:
            counts[min(BINS - 1, int(peak * BINS))] += 1
        result["rows"] = len(peaks)
        result[name] = {"counts": counts, "gradient": sum(flows) / len(flows) if flows else None}
    return result


def one_by_one(subject: Subject) -> dict[str, Any]:
    """Return the largest difference in a weight between one pass over all tokens and one token after the other.

    The second way each token is read once, with the keys and values of those before it kept in a cache.
    """
    if not subject.config.causal:
        return {"passes": 0, "difference": None}
    largest, kept = 0.0, subject.model.new_cache()
    for t, id in enumerate(subject.ids):
        seen: dict[str, Tensor] = {}
        with mg.no_grad():
            subject.model(mg.tensor([[id]]), Capture(seen), kept)
        for layer in range(subject.config.n_layers):
            name = f"blocks.{layer}.attention.pattern"
            difference = seen[name][0, :, 0] - subject.cache[name][:, t, : t + 1]  # (H, t + 1)
            largest = max(largest, float(difference.abs().max().item()))
    return {"passes": len(subject.ids), "difference": largest}


def heads(subject: Subject) -> dict[str, Any]:
    """Return every head's patterns and detector scores at each snapshot, and what it adds to each token."""
    snapshots = []
    for (_, cache), repeated in zip(subject.snapshot_runs, repeated_scores(subject.material), strict=True):
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
    if "repeated" not in material.computed:
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
        material.computed["repeated"] = found
    result: list[dict[str, list[list[float]]]] = material.computed["repeated"]
    return result


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
    x = subject.block_input(0).unsqueeze(0)  # (1, T, d)
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
