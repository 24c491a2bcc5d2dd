"""The model sizes at which a training step is timed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    """A model and a batch."""

    n_layers: int
    n_heads: int
    d_model: int
    context: int
    batch_size: int
    vocab_size: int

    @property
    def flops(self) -> float:
        """Multiplications and additions of one training step, counted as model FLOPs usually are.

        Forward 2 · parameters in products · tokens, backward twice that; attention's two products over all
        pairs, of which the causal half is counted.
        """
        d, tokens = self.d_model, self.batch_size * self.context
        weights = self.n_layers * (4 * d * d + 8 * d * d) + self.vocab_size * d
        pairs = self.n_layers * 2 * tokens * self.context * d / 2
        return 3 * 2 * (weights * tokens + pairs)


SIZES = {
    "micro": Size(2, 2, 32, 16, 8, 65),
    "nano": Size(4, 4, 128, 64, 12, 65),
    "mid": Size(6, 6, 192, 128, 16, 512),
    "paper": Size(6, 8, 512, 128, 4, 8000),
}
