"""Talking: from logits to a distribution, from the distribution to a token, and again with that token appended."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import minigrad as mg
from minigrad import Tensor
from transformer.model import Transformer
from transformer.tokenizer import Tokenizer


def check_sampling(temperature: float, top_k: int, top_p: float) -> None:
    """Raise for sampling options that mean nothing.

    Raises:
        ValueError: names the option, its value and what is allowed.
    """
    if not 0 <= temperature < math.inf:
        raise ValueError(f"the temperature must be a number of at least 0, not {temperature}")
    if top_k < 0:
        raise ValueError(f"top_k must be at least 0 (0: off), not {top_k}")
    if not 0 < top_p <= 1:
        raise ValueError(f"top_p must be above 0 and at most 1 (1: off), not {top_p}")


def next_token_distribution(
    logits: Tensor, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0
) -> Tensor:
    """Return the probabilities (V,) from which the next token is drawn, given its logits (V,).

    Args:
        logits: one score for each token.
        temperature: logits are divided by it: below 1 bolder, above 1 wilder, 0 always the likeliest token.
        top_k: keep only the k likeliest tokens; 0 or at least V keeps all.
        top_p: keep only the likeliest tokens that together first reach this probability (always at least one).

    Raises:
        ValueError: an option is out of its range.
    """
    check_sampling(temperature, top_k, top_p)
    logits = logits.detach().double()
    if temperature == 0:
        return mg.arange(len(logits)).eq(logits.argmax()).double()
    probabilities = ((logits - logits.max()) / temperature).softmax(-1)  # (V,)
    ordered, indices = probabilities.sort(descending=True, stable=True)
    kept = mg.arange(len(logits)) < (top_k or len(logits))  # (V,)   in order of likelihood
    if top_p < 1:
        before = ordered.cumsum(0) - ordered  # what the likelier tokens have together
        kept = kept & (before < top_p)
    ordered = ordered.masked_fill(~kept, 0.0)
    return mg.zeros_like(probabilities).scatter_add(0, indices, ordered / ordered.sum())


def generate_ids(
    model: Transformer,
    ids: Sequence[int],
    n_tokens: int,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    generator: mg.Generator | None = None,
) -> Iterator[int]:
    """Yield ``n_tokens`` new token ids after ``ids``, each as soon as it is drawn.

    The model sees at most its last ``context`` tokens: beyond that the window slides.

    Raises:
        ValueError: there is no token to start from, or a sampling option is out of its range.
    """
    check_sampling(temperature, top_k, top_p)
    if not ids:
        raise ValueError("there is no token to start from")
    sequence = list(ids)
    model.eval()
    for _ in range(n_tokens):
        window = mg.tensor([sequence[-model.config.context :]])  # (1, T)
        with mg.no_grad(), mg.limit_threads(1):  # for products this small, more threads only wait
            logits = model(window)[0, -1]  # (V,)
        probabilities = next_token_distribution(logits, temperature, top_k, top_p)
        token = int(mg.multinomial(probabilities, 1, generator=generator).item())
        sequence.append(token)
        yield token


def generate(
    model: Transformer,
    tokenizer: Tokenizer,
    prompt: str = "",
    n_tokens: int = 300,
    temperature: float = 0.8,
    top_k: int = 0,
    top_p: float = 1.0,
    seed: int | None = None,
) -> Iterator[str]:
    """Yield the continuation of ``prompt`` piece by piece, each piece whole characters.

    An empty prompt starts from a line break, or from the tokenizer's first token if it knows no line break.
    With a ``seed`` the same call gives the same text.

    Raises:
        ValueError: the prompt has characters that the tokenizer does not know, or an option is out of range.
    """
    generator = mg.Generator().manual_seed(seed) if seed is not None else None
    decoder = tokenizer.stream_decoder()
    ids = tokenizer.encode(prompt) if prompt else start_ids(tokenizer)
    for token in generate_ids(model, ids, n_tokens, temperature, top_k, top_p, generator):
        piece = decoder.feed(token)
        if piece:
            yield piece
    rest = decoder.flush()
    if rest:
        yield rest


def start_ids(tokenizer: Tokenizer) -> list[int]:
    """Return what an empty prompt starts from: a line break where there is one."""
    try:
        return tokenizer.encode("\n")
    except ValueError:
        return [0]
