"""The whole model: embedding, N blocks, and the embedding table once more to score every token."""

from __future__ import annotations

from collections.abc import Sequence

import minigrad as mg
from minigrad import Tensor, nn
from minigrad.nn import functional as F
from transformer.attention import mask_without_padding
from transformer.block import Block
from transformer.cache import BlockCache, KeyValueCache
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

    Args:
        config: its dimensions and variants.
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
        if config.tie_weights:  # "we share the same weight matrix" (section 3.4)
            self.output.weight = self.embedding.token.weight

    def forward(
        self,
        ids: Tensor,
        capture: Capture = NOTHING,
        cache: KeyValueCache | None = None,
        attention_mask: Tensor | None = None,
    ) -> Tensor:
        """Return the logits (B, T, V) of token ids (B, T): at each position, scores for the token after it.

        With a ``cache`` the tokens continue the B texts that it holds, and are added to it.  Texts of different
        lengths in one batch are padded at their ends, and ``attention_mask`` (B, T) is False for the padding.

        Args:
            ids: token ids (B, T), of any integer dtype.
            capture: keeps the tensors on the way, if it is asked to: see :meth:`run_with_cache`.
            cache: the keys and values of the tokens before, from :meth:`new_cache`.
            attention_mask: boolean (B, T).

        Raises:
            ValueError: the ids are of another shape, or too many for learned positions, or the cache is for
                another number of texts; the mask is of another shape, or not boolean, or comes with a cache.
            IndexError: an id is negative or not below V.
            RuntimeError: the ids are no integers; or there is a cache, but operations are being recorded.
        """
        if ids.ndim != 2:
            raise ValueError(f"token ids must have the shape (B, T), not {tuple(ids.shape)}: a batch of sequences")
        starts: Sequence[int] = (0,)
        block_caches: Sequence[BlockCache | None] = [None] * len(self.blocks)
        mask: Tensor | None = None
        if cache is not None:
            if attention_mask is not None:
                raise ValueError("a cache knows the length of each text: give it texts without attention_mask")
            starts, block_caches, mask = cache.prepare(*ids.shape)
        elif attention_mask is not None:
            mask = mask_without_padding(attention_mask, ids.shape, self.config.causal)
        x = self.embedding(ids, capture, starts)  # (B, T, d)
        for i, (block, block_cache) in enumerate(zip(self.blocks, block_caches, strict=True)):
            x = block(x, capture.within(f"blocks.{i}"), mask, block_cache)  # (B, T, d)
        if self.norm is not None:
            x = self.norm(x)  # (B, T, d)
        logits: Tensor = self.output(x)  # (B, T, V)
        capture(logits=logits)
        if cache is not None:
            cache.advance(ids.shape[1])
        return logits

    def new_cache(self, batch_size: int = 1, capacity: int | None = None) -> KeyValueCache:
        """Return an empty cache of keys and values, for texts that are read piece by piece.

        Args:
            batch_size: how many texts.
            capacity: how many tokens of each there is room for at first (default: the context).

        Raises:
            ValueError: the model is not causal, so that what comes later changes the keys of what came before.
        """
        if not self.config.causal:
            raise ValueError("only a causal model can use a cache: in others every token sees the later ones too")
        shape = (2, batch_size, self.config.n_heads, capacity or self.config.context, self.config.d_k)
        kept = [self.output.weight.new_zeros(shape) for _ in self.blocks]
        return KeyValueCache(kept, [0] * batch_size)

    def loss(self, ids: Tensor, targets: Tensor, label_smoothing: float = 0.0) -> Tensor:
        """Return the mean cross-entropy (), in nats per token, of ``targets`` given ``ids``.

        Args:
            ids: token ids (B, T).
            targets: the token after each (B, T); −100 marks one that is not counted.
            label_smoothing: the share of a target's probability that is spread over all tokens (section 5.4).

        Raises:
            ValueError: as of :meth:`forward`, or the shapes differ.
            IndexError: an id or a target is not a token's.
            RuntimeError: ids or targets are no integers, or ``label_smoothing`` is outside [0, 1].
        """
        logits = self(ids)  # (B, T, V)
        return F.cross_entropy(
            logits.reshape(-1, logits.shape[-1]), targets.reshape(-1), label_smoothing=label_smoothing
        )

    def run_with_cache(
        self, ids: Tensor, retain_grad: bool = False, attention_mask: Tensor | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the logits and every tensor on the way to them, by name.

        The names: ``embed`` (the table's rows), ``positions``; for each block i, under ``blocks.i.``:
        ``attention.q``, ``.k``, ``.v``, ``.scores`` (masked), ``.pattern``, ``.z``, ``.out``;
        ``residual_attention`` (the sum), ``norm_attention`` (after LayerNorm), ``ffn.hidden``, ``ffn.out``,
        ``residual_ffn``, ``norm_ffn``; and ``logits``.

        Args:
            ids: token ids (B, T).
            retain_grad: keep their gradients too: a later ``backward`` fills the ``grad`` of each.
            attention_mask: (B, T), False for padding.
        """
        cache: dict[str, Tensor] = {}
        logits = self(ids, Capture(cache), attention_mask=attention_mask)
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
