"""Finding induction heads: those that look for the last time the present token occurred, and at what followed it.

Olsson et al., "In-context Learning and Induction Heads", 2022 (arXiv:2209.11895).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import minigrad as mg
from minigrad import Tensor
from transformer.model import Transformer
from transformer.tasks import Questions


def induction_scores(questions: Questions, model: Transformer, asked: Sequence[str]) -> Tensor:
    """Return how much of an induction head each head of each layer is, (L, H): from 0 to 1.

    A question to copy is followed by its own letters in random order, as if they were an answer; the score is the
    mean weight that a letter there has for the letter *after* the same one in the question.  Where that is, the
    random order makes independent of the place where it is looked from: a head that only counts places back has
    about 1 / n in a question of n letters, a perfect induction head 1.

    Raises:
        ValueError: no question has two letters.
    """
    n = max(map(len, asked))  # the longest questions only, which makes a batch without padding
    longest = [question for question in asked if len(question) == n]
    if n < 2:
        raise ValueError("an induction head shows only where a question has two letters or more")
    rng = random.Random(0)
    texts, after = [], []
    for question in longest:
        shuffled = rng.sample(question, n)
        texts.append(questions.tokenizer.encode(questions.task.prompt(question) + "".join(shuffled)))
        after.append([question.index(letter) + 1 for letter in shuffled])
    with mg.no_grad():
        _, cache = model.run_with_cache(mg.tensor(texts))
    wanted = mg.tensor(after)[:, None, :, None]  # (B, 1, n, 1)
    scores = []
    for layer in range(model.config.n_layers):
        pattern = cache[f"blocks.{layer}.attention.pattern"][:, :, n + 1 :]  # (B, H, n, T)
        index = wanted.expand(-1, pattern.shape[1], -1, -1)
        scores.append(pattern.gather(-1, index).mean((0, 2, 3)))  # (H,)
    return mg.stack(scores)


@contextmanager
def without_heads(model: Transformer, heads: Sequence[tuple[int, int]]) -> Iterator[None]:
    """Inside the block, what these heads (each a layer and a head) say is replaced by 0."""
    before = [block.attention.W_O.weight.detach().clone() for block in model.blocks]
    d_k = model.config.d_k
    try:
        with mg.no_grad():
            for layer, head in heads:
                model.blocks[layer].attention.W_O.weight[:, head * d_k : (head + 1) * d_k] = 0.0
        yield
    finally:
        with mg.no_grad():
            for block, weight in zip(model.blocks, before, strict=True):
                block.attention.W_O.weight.copy_(weight)
