"""Chapter 9: the blocks: residual stream, LayerNorm, feed-forward network."""

from __future__ import annotations

from typing import Any

import minigrad as mg
from minigrad import Tensor, nn
from transformer.explain.material import Subject, ffn_input, stages
from transformer.explain.packing import packed

GUESSES = 5


def blocks(subject: Subject) -> dict[str, Any]:
    """Return what the model would predict after each block, the norms' gains, and what the FFN does not see."""
    return {
        "parameters": parameters(subject),
        "guesses": guesses(subject),
        "norms": [
            {
                name: {
                    "gain": packed(getattr(block, name).weight.detach()),
                    "shift": packed(getattr(block, name).bias.detach()),
                }
                for name in ("norm_attention", "norm_ffn")
            }
            for block in subject.model.blocks
        ],
        "ffn_sees_others": ffn_sees_others(subject),
    }


def parameters(subject: Subject) -> dict[str, int]:
    """Return how many numbers each part of the model learns."""
    block = subject.model.blocks[0]
    in_blocks = {
        "attention": count(block.attention),
        "ffn": count(block.ffn),
        "norms": count(block.norm_attention) + count(block.norm_ffn),
    }
    embedding = count(subject.model.embedding)
    total = subject.model.n_parameters()
    rest = total - embedding - len(subject.model.blocks) * sum(in_blocks.values())
    return {"embedding": embedding, **in_blocks, "block": sum(in_blocks.values()), "rest": rest, "total": total}


def count(module: nn.Module) -> int:
    """Return how many numbers a module learns."""
    return sum(parameter.numel() for parameter in module.parameters())


def guesses(subject: Subject) -> list[list[dict[str, Any]]]:
    """Return for each stage and position the likeliest next tokens if the model stopped there.

    Stage 0 is the input of the first block; the vectors are scored by the same output matrix as at the end.
    """
    model, found = subject.model, []
    for stage in stages(subject.cache, subject.config)[1:]:
        with mg.no_grad():
            vectors = model.norm(stage) if model.norm is not None else stage
            probabilities = model.output(vectors).double().softmax(-1)  # (T, V)
        rows = []
        for t, row in enumerate(probabilities.unbind()):
            values, order = row.topk(min(GUESSES, len(row)))
            rows.append(
                {
                    "tokens": order.tolist(),
                    "probabilities": values.tolist(),
                    "target": float(row[subject.ids[t + 1]].item()) if t + 1 < len(subject.ids) else None,
                }
            )
        found.append(rows)
    return found


def ffn_sees_others(subject: Subject) -> dict[str, float]:
    """Set all tokens but the last to 0 before the first FFN; return the largest changes in its output."""
    x = ffn_input(subject.cache, subject.config, 0)  # (T, d)
    alone = mg.cat([mg.zeros_like(x[:-1]), x[-1:]])
    with mg.no_grad():
        difference: Tensor = (subject.model.blocks[0].ffn(alone) - subject.model.blocks[0].ffn(x)).abs()
    others = float(difference[:-1].max().item()) if len(x) > 1 else 0.0
    return {"itself": float(difference[-1].max().item()), "others": others}
