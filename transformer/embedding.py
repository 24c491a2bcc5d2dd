"""From token ids to vectors: a learned table, and a fingerprint of each position added on top.

"Attention Is All You Need", sections 3.4 and 3.5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import minigrad as mg
from minigrad import Tensor, nn
from transformer.capture import NOTHING, Capture
from transformer.config import Config


def sinusoids(n_positions: int, d_model: int, dtype: object = None) -> Tensor:
    """Return PE(p, 2i) = sin(p / 10000^(2i/d)) and PE(p, 2i+1) = cos(p / 10000^(2i/d)) as (n_positions, d_model).

    Each pair of dimensions is a clock hand that turns at its own speed, so a step of k positions is one rotation
    of every pair, wherever it starts.

    >>> sinusoids(2, 4)[0].tolist()
    [0.0, 1.0, 0.0, 1.0]
    """
    position = mg.arange(n_positions, dtype=mg.float64).unsqueeze(1)  # (T, 1)
    even = mg.arange(0, d_model, 2, dtype=mg.float64)  # (d/2,)   2i, for each pair of dimensions
    angle = position / 10000.0 ** (even / d_model)  # (T, d/2)
    table = mg.stack([angle.sin(), angle.cos()], dim=2).flatten(1)  # (T, d/2, 2) → (T, d)
    return table.to(dtype or mg.get_default_dtype())


class Embedding(nn.Module):
    """Token embedding · √d_model + positions: the input of the first block.

    The initial scale has to be chosen with the tied output in mind.  The logits are inner products of the last
    vector with every row of this table, and the last vector still resembles the row of its own token.  Rows of
    variance 1/d, common elsewhere, would make the untrained model predict the current token again: a first loss
    above ln V, the more so the fewer the blocks (7 instead of 4.2 for one block and 65 tokens).  With a deviation
    of 0.02 all first logits are small, and the untrained model is close to uniform, as it should be.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.d_model = config.d_model
        self.context = config.context
        self.token = nn.Embedding(config.vocab_size, config.d_model)
        nn.init.normal_(self.token.weight, std=0.02)
        self.learned = config.positions == "learned"
        self.position: Tensor
        if self.learned:
            self.position = nn.Parameter(mg.zeros(config.context, config.d_model))
            nn.init.normal_(self.position, std=0.02)
        else:
            at_first = min(config.context, 1024)  # the table grows at need
            self.register_buffer("position", sinusoids(at_first, config.d_model), persistent=False)
        self.dropout = nn.Dropout(config.dropout)

    def extra_repr(self) -> str:
        return f'positions="{"learned" if self.learned else "sinusoidal"}"'

    def forward(self, ids: Tensor, capture: Capture = NOTHING, starts: Sequence[int] = (0,)) -> Tensor:
        """Return the vectors (B, T, d) of token ids (B, T).

        Row b stands at the positions starts[b], starts[b] + 1, …: one number for each row, or one for all.

        Raises:
            ValueError: learned positions were asked for beyond the context they were trained for.
        """
        T = ids.shape[1]
        first, end = min(starts), max(starts) + T
        embed = self.token(ids)  # (B, T, d)
        positions = self.positions(first, end)  # (end − first, d)
        if end - first > T:  # the rows start at different places
            places = mg.tensor(starts).unsqueeze(1) + mg.arange(T)  # (B, T)
            positions = positions[places - first]  # (B, T, d)
        x: Tensor = self.dropout(embed * math.sqrt(self.d_model) + positions)  # (B, T, d)
        capture(embed=embed, positions=positions)
        return x

    def positions(self, start: int, end: int) -> Tensor:
        """Return the fingerprints of positions start … end − 1, (end − start, d).  Sinusoids extend at need.

        Raises:
            ValueError: learned positions were asked for beyond the context they were trained for.
        """
        table = self.position
        if end > len(table):
            if self.learned:
                raise ValueError(
                    f"learned positions end at {self.context}, but position {end - 1} was asked for: "
                    "give fewer tokens, or train with sinusoidal positions, which extend"
                )
            self.position = table = sinusoids(max(end, 2 * len(table)), self.d_model, table.dtype).to(table.device)
        if end - start == len(table) and mg.is_grad_enabled():
            return table  # all of it: a slice would be a node in the graph of every step
        return table[start:end]
