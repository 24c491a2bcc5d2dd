"""The whole model: embedding, N blocks, and the embedding table once more to score every token."""

from __future__ import annotations

import minigrad as mg
from minigrad import Tensor, nn
from minigrad.nn import functional as F
from transformer.block import Block
from transformer.capture import NOTHING, Capture
from transformer.config import Config
from transformer.embedding import Embedding


class Transformer(nn.Module):
    """The decoder of "Attention Is All You Need": token ids in, a score for every possible next token out.

    >>> import minigrad as mg
    >>> model = Transformer(Config(vocab_size=65, n_layers=2, d_model=32))
    >>> model(mg.tensor([[1, 2, 3]])).shape
    (1, 3, 65)

    ``model.summary()`` lists its layers.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embedding = Embedding(config)
        self.blocks = nn.ModuleList([Block(config) for _ in range(config.n_layers)])
        # Pre-norm blocks leave the residual path unnormalised; one LayerNorm at the end makes up for it.
        self.norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps) if config.norm == "pre" else None
        self.output = nn.Linear(config.d_model, config.vocab_size, bias=False)
        nn.init.normal_(self.output.weight, std=0.02)
        if config.tie_weights:
            self.output.weight = self.embedding.token.weight

    def forward(self, ids: Tensor, capture: Capture = NOTHING) -> Tensor:
        """Return the logits (B, T, V) of token ids (B, T): at each position, scores for the token after it.

        Raises:
            ValueError: the ids are of another shape, or too many for learned positions.
            IndexError: an id is not below V.
        """
        if ids.ndim != 2:
            raise ValueError(f"token ids must have the shape (B, T), not {tuple(ids.shape)}: a batch of sequences")
        x = self.embedding(ids, capture)  # (B, T, d)
        for i, block in enumerate(self.blocks):
            x = block(x, capture.within(f"blocks.{i}"))  # (B, T, d)
        if self.norm is not None:
            x = self.norm(x)  # (B, T, d)
        logits: Tensor = self.output(x)  # (B, T, V)
        capture("logits", logits)
        return logits

    def loss(self, ids: Tensor, targets: Tensor, label_smoothing: float = 0.0) -> Tensor:
        """Return the mean cross-entropy, in nats per token, of ``targets`` (B, T) given ``ids`` (B, T)."""
        logits = self(ids)  # (B, T, V)
        return F.cross_entropy(
            logits.reshape(-1, logits.shape[-1]), targets.reshape(-1), label_smoothing=label_smoothing
        )

    def run_with_cache(self, ids: Tensor, retain_grad: bool = False) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the logits and every tensor on the way to them, by name.

        The names: ``embed`` (the table's rows), ``positions``; for each block i, under ``blocks.i.``:
        ``attention.q``, ``.k``, ``.v``, ``.scores`` (masked), ``.pattern``, ``.z``, ``.out``;
        ``residual_attention`` (the sum), ``norm_attention`` (after LayerNorm), ``ffn.hidden``, ``ffn.out``,
        ``residual_ffn``, ``norm_ffn``; and ``logits``.

        Args:
            ids: token ids (B, T).
            retain_grad: keep their gradients too: a later ``backward`` fills the ``grad`` of each.
        """
        cache: dict[str, Tensor] = {}
        logits = self(ids, Capture(cache))
        if retain_grad:
            for tensor in cache.values():
                if tensor.requires_grad:
                    tensor.retain_grad()
        return logits, cache

    def example_input(self) -> Tensor:
        """Return token ids (1, context): what ``summary()`` runs on if it is given nothing else."""
        return mg.zeros(1, self.config.context, dtype=mg.int64)

    def n_parameters(self) -> int:
        """Return the number of parameters, a tied table counted once."""
        return sum(parameter.numel() for parameter in self.parameters())


def parameters_to_decay(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Return the matrices, which weight decay pulls towards zero, and the biases and gains, which it leaves."""
    parameters = list(model.parameters())
    return [p for p in parameters if p.ndim > 1], [p for p in parameters if p.ndim <= 1]
