"""Chapter 12: how a step of training finds its direction: gradients, walked back through the reader's model."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import minigrad as mg
from minigrad import Tensor
from minigrad.nn import functional as F
from transformer.explain.graph import walked
from transformer.explain.material import Subject, ffn_input
from transformer.explain.packing import packed
from transformer.model import Transformer

QUERY = 4  # the position whose query is walked through: it has few keys, so that all can be seen
STACK_LAYERS, STACK_WIDTH = 12, 128  # of the untrained stack
STEPS = 4  # of gradient descent


def backprop(subject: Subject) -> dict[str, Any]:
    """Return a neuron and an attention head walked backward, the size of all gradients, and what a step changes.

    A text of a single token has no next token to learn from: then the loss is None, and there is nothing else.
    """
    if len(subject.ids) < 2:
        return {"loss": None}
    loss, cache, gradients = real_step(subject)
    return {
        "loss": loss,
        "neuron": neuron(subject, cache, gradients),
        "head": attention_head(subject, cache, gradients),
        "sizes": gradient_sizes(subject),
        "residuals": residuals(subject),
        "descent": {"all": descents(subject, slice(None)), "last": descents(subject, slice(-1, None))},
    }


def loss_of(logits: Tensor, ids: list[int], which: slice = slice(None)) -> Tensor:
    """Return the mean of −ln p of each next token, or of some of them, in nats; logits (T, V)."""
    return F.cross_entropy(logits[:-1][which], mg.tensor(ids[1:])[which])


def real_step(subject: Subject) -> tuple[float, dict[str, Tensor], dict[str, Tensor]]:
    """Return the loss of the text, every tensor on the way to it by name, and the gradients of two kinds of them.

    These are the FFNs' hidden units and what the heads gather, z.
    """
    logits, cache = subject.model.run_with_cache(mg.tensor([subject.ids]))
    loss = loss_of(logits[0], subject.ids)
    names = [name for name in cache if name.endswith(("ffn.hidden", "attention.z"))]
    found = mg.autograd.grad(loss, [cache[name] for name in names])
    return loss.item(), cache, dict(zip(names, found, strict=True))


# --- a neuron -------------------------------------------------------------------------------------


def neuron(subject: Subject, cache: dict[str, Tensor], gradients: dict[str, Tensor]) -> dict[str, Any]:
    """Return a hidden unit of the last block's feed-forward network, walked backward.

    It is the one that has most influence on the loss, at the last position from which a token is guessed.  Of its
    products of an input and a weight the two largest are walked through, the others together count as one number.
    """
    layer, position = subject.config.n_layers - 1, len(subject.ids) - 2
    ffn = subject.model.blocks[layer].ffn
    hidden, slopes = (found[f"blocks.{layer}.ffn.hidden"][0, position] for found in (cache, gradients))
    lit = (hidden > 0).float() * slopes.abs()
    unit = int(lit.argmax().item())
    x = ffn_input(cache, subject.config, layer)[0, position].detach()  # (d,)
    w = ffn.expand.weight[unit].detach()  # (d,)
    products = w * x
    first, second = (int(i) for i in products.abs().topk(2)[1].tolist())
    x1, w1, x2, w2 = (leaf(tensor[i]) for i in (first, second) for tensor in (x, w))
    others = leaf(products.sum() - products[first] - products[second])
    bias = leaf(ffn.expand.bias[unit])
    name1, name2 = subscript(first), subscript(second)
    product1, product2 = w1 * x1, w2 * x2
    both, rest = product1 + product2, others + bias
    total = both + rest
    out = ffn.activation(total)
    names = {
        f"x{name1}": x1,
        f"w{name1}": w1,
        f"x{name2}": x2,
        f"w{name2}": w2,
        "others": others,
        "b": bias,
        f"w{name1}x{name1}": product1,
        f"w{name2}x{name2}": product2,
        "the two": both,
        "the rest": rest,
        "sum": total,
        "h": out,
    }
    whole = mg.autograd.grad(fresh_loss(subject), ffn.expand.weight)[0][unit]
    return {
        "layer": layer,
        "position": position,
        "unit": unit,
        "inputs": [first, second],
        "captured": hidden[unit].item(),
        "whole": [whole[first].item(), whole[second].item()],  # of the two weights, from all positions
        "graph": walked(out, slopes[unit].detach(), names),
    }


def fresh_loss(subject: Subject) -> Tensor:
    """Return the loss of the text, computed anew: a graph serves one backward pass."""
    return loss_of(subject.model(mg.tensor([subject.ids]))[0], subject.ids)


def leaf(tensor: Tensor) -> Tensor:
    """Return a copy that a backward pass ends at."""
    return tensor.detach().clone().requires_grad_()


def subscript(n: int) -> str:
    """Return a number in small figures below the line.

    >>> subscript(17)
    '₁₇'
    """
    return "".join("₀₁₂₃₄₅₆₇₈₉"[int(digit)] for digit in str(n))


# --- an attention head ----------------------------------------------------------------------------


def attention_head(subject: Subject, cache: dict[str, Tensor], gradients: dict[str, Tensor]) -> dict[str, Any]:
    """Return what one head does for one query, walked backward, for the head with most influence there."""
    position = min(QUERY, len(subject.ids) - 2)
    keys = position + 1 if subject.config.causal else len(subject.ids)
    influence = [
        gradients[f"blocks.{layer}.attention.z"][0, :, position].norm(dim=-1)  # (H,)
        for layer in range(subject.config.n_layers)
    ]
    strongest = int(mg.cat(influence).argmax().item())
    layer, head = divmod(strongest, subject.config.n_heads)
    q, k, v = (cache[f"blocks.{layer}.attention.{name}"][0, head] for name in "qkv")  # (T, d_k) each
    q, K, V = leaf(q[position]), leaf(k[:keys]), leaf(v[:keys])
    products = K @ q  # (n,)
    scores = products / math.sqrt(subject.config.d_k)
    weights = scores.softmax(-1)
    z = weights @ V  # (d_k,)
    arriving = gradients[f"blocks.{layer}.attention.z"][0, head, position]
    names = {"q": q, "K": K, "V": V, "K·q": products, "scores": scores, "weights": weights, "z": z}
    return {
        "layer": layer,
        "head": head,
        "position": position,
        "keys": keys,
        "captured": packed(cache[f"blocks.{layer}.attention.z"][0, head, position]),
        "graph": walked(z, arriving, names),
    }


# --- the size of gradients ------------------------------------------------------------------------


def gradient_sizes(subject: Subject) -> dict[str, Any]:
    """Return for each parameter how large its numbers and their gradients are, at each snapshot.

    The size of several numbers is the root of the mean of their squares.
    """
    names = [name for name, _ in subject.model.named_parameters()]
    snapshots = []
    for snapshot in subject.material.snapshots:
        parameters = list(snapshot.model.parameters())
        logits = snapshot.model(mg.tensor([subject.ids]))
        gradients = mg.autograd.grad(loss_of(logits[0], subject.ids), parameters)
        snapshots.append(
            {
                "values": [size(parameter) for parameter in parameters],
                "gradients": [size(gradient) for gradient in gradients],
            }
        )
    return {"names": names, "snapshots": snapshots}


def size(tensor: Tensor) -> float:
    """Return the root of the mean square."""
    return math.sqrt((tensor.detach() ** 2).mean().item())


def residuals(subject: Subject) -> list[dict[str, Any]]:
    """Return how large the gradient is that arrives at each block, with residual connections and without.

    Three stacks: the reader's model; and an untrained one of many blocks, with LayerNorm and without.  Each is
    measured as it is, and as a twin with the same weights that leaves the additions out.
    """
    width = min(subject.config.d_model, STACK_WIDTH)
    heads = subject.config.n_heads if width == subject.config.d_model else 4
    config = dataclasses.replace(
        subject.config, n_layers=STACK_LAYERS, d_model=width, n_heads=heads, d_ff=4 * width, dropout=0.0
    )
    with mg.fork_rng(0):
        stack = Transformer(config).eval()
    return [
        {
            "name": name,
            "layers": model.config.n_layers,
            "width": model.config.d_model,
            "trained": model is subject.model,
            "layer_norm": layer_norm,
            "with": arriving(model, subject.ids, residual=True, layer_norm=layer_norm),
            "without": arriving(model, subject.ids, residual=False, layer_norm=layer_norm),
        }
        for name, model, layer_norm in (
            ("yours", subject.model, True),
            ("deep", stack, False),
            ("deep, normalised", stack, True),
        )
    ]


def arriving(model: Transformer, ids: list[int], residual: bool, layer_norm: bool) -> list[float]:
    """Return the norm of the loss's gradient at the input of each block, and at the output of the last.

    The blocks are run as :meth:`transformer.block.Block.forward` does, except for what is left out.
    """
    x = model.embedding(mg.tensor([ids]))
    places = [x]
    for block in model.blocks:
        for name in ("attention", "ffn"):
            layer = getattr(block, name)
            norm = getattr(block, f"norm_{name}") if layer_norm else (lambda tensor: tensor)
            if block.pre:
                change = layer(norm(x))
                x = x + change if residual else change
            else:
                change = layer(x)
                x = norm(x + change if residual else change)
        places.append(x)
    if model.norm is not None and layer_norm:
        x = model.norm(x)
    gradients = mg.autograd.grad(loss_of(model.output(x)[0], ids), places)
    return [gradient.norm().item() for gradient in gradients]


# --- a step ---------------------------------------------------------------------------------------


def descents(subject: Subject, which: slice) -> list[dict[str, Any]]:
    """Return what a few steps down do, for a small step size and for ones ten and a hundred times as large.

    The small one is the power of ten that promises to take between 1 and 10 % off the loss.

    Args:
        subject: the sentence and its model, which stays as it is.
        which: the tokens to learn from.
    """
    (start,) = descent(subject, 0.0, which, steps=0)
    small = math.floor(math.log10(0.1 * start["loss"] / max(start["slope"] ** 2, 1e-30)))
    sizes = [10.0**power for power in (small, small + 1, small + 2)]
    return [{"step_size": size, "states": descent(subject, size, which, STEPS)} for size in sizes]


def descent(subject: Subject, step_size: float, which: slice, steps: int) -> list[dict[str, Any]]:
    """Take a copy of the model down the slope, and return what it thinks of the text before and after each step.

    The result has for each state the ``loss`` that is learned from, the ``slope`` (the length of its gradient over
    all numbers of the model), and the ``losses`` of all tokens.  It ends early where the loss is no number.
    """
    twin = Transformer(subject.config).eval()
    twin.load_state_dict(subject.model.state_dict())
    optimizer = mg.optim.SGD(twin.parameters(), lr=step_size)
    states: list[dict[str, Any]] = []
    while len(states) <= steps:
        logits = twin(mg.tensor([subject.ids]))[0]  # (T, V)
        loss = loss_of(logits, subject.ids, which)
        losses = F.cross_entropy(logits.detach()[:-1], mg.tensor(subject.ids[1:]), reduction="none")
        optimizer.zero_grad()
        loss.backward()
        squares = sum((p.grad.double() ** 2).sum().item() for p in twin.parameters() if p.grad is not None)
        if not math.isfinite(loss.item() + squares + losses.sum().item()):
            break  # so large a step led nowhere
        states.append({"loss": loss.item(), "slope": math.sqrt(squares), "losses": losses.tolist()})
        optimizer.step()
    return states
