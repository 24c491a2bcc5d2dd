"""A model made ready for single tokens: how text is generated, many times as fast as its modules would.

The model's own files say what it computes, in what PyTorch has too; this one knows minigrad's kernel for it.
"""

from __future__ import annotations

import math

from minigrad import nn
from minigrad.kernels.decoder_step import BlockStep, DecoderStep
from minigrad.nn import functional as F
from transformer.attention import MultiHeadAttention
from transformer.block import Block, FeedForward
from transformer.embedding import Embedding
from transformer.model import Transformer

KNOWN: set[type[nn.Module]] = {Transformer, Embedding, Block, MultiHeadAttention, FeedForward}
KNOWN |= {nn.ModuleList, nn.Embedding, nn.Linear, nn.LayerNorm, nn.Dropout}


def decoder_step(model: Transformer) -> DecoderStep | None:
    """Return what takes single tokens through this model, with its weights as they now are.

    None if it is not only what its files say: a module was replaced or has a hook, or dropout is on.
    """
    for module in model.modules():
        if type(module) not in KNOWN or module._forward_hooks or "forward" in vars(module):
            return None
    if model.training and model.config.dropout > 0:
        return None
    scale, blocks = math.sqrt(model.config.d_model), [block_step(block) for block in model.blocks]
    return DecoderStep(model.embedding.token, scale, blocks, model.norm, model.output)


def block_step(block: nn.Module) -> BlockStep:
    """Return a block as it is in :mod:`minigrad.kernels.decoder_step`."""
    assert isinstance(block, Block)
    attention, ffn = block.attention, block.ffn
    return BlockStep(
        block.pre,
        "relu" if ffn.activation is F.relu else "gelu",
        attention.n_heads,
        (attention.W_Q, attention.W_K, attention.W_V),
        attention.W_O,
        ffn.expand,
        ffn.contract,
        block.norm_attention,
        block.norm_ffn,
    )
