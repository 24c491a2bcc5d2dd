"""A model for PyTorch, and for nothing else to be installed: weights under the names of PyTorch's own modules."""

from __future__ import annotations

import json
from pathlib import Path

import minigrad as mg
from minigrad import Tensor, nn
from minigrad.files import replace_file
from minigrad.serialization import save_for_others
from transformer.block import Block
from transformer.model import Transformer
from transformer.tokenizer import Tokenizer

DECODER = '''\
"""A model that `transformer export` wrote, in PyTorch: pip install torch safetensors."""

import json
from pathlib import Path
from types import SimpleNamespace

import torch
from safetensors.torch import load_model
from torch import nn


class Decoder(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.config, before, size = c, c.norm == "pre", (c.d_model, c.n_heads)
        self.token = nn.Embedding(c.vocab_size, c.d_model)
        self.position = nn.Parameter(torch.empty(c.context, c.d_model), requires_grad=c.positions == "learned")
        block = nn.TransformerEncoderLayer(*size, c.d_ff, c.dropout, c.activation, c.layer_norm_eps, True, before)
        block.self_attn = nn.MultiheadAttention(*size, bias=c.bias, batch_first=True)
        norm = nn.LayerNorm(c.d_model, c.layer_norm_eps) if before else None
        self.blocks = nn.TransformerEncoder(block, c.n_layers, norm, enable_nested_tensor=False)
        self.output = nn.Linear(c.d_model, c.vocab_size, bias=False)
        self.output.weight = self.token.weight if c.tie_weights else self.output.weight

    def forward(self, ids):  # (B, T) to logits (B, T, V)
        x = self.token(ids) * self.config.d_model**0.5 + self.position[: ids.shape[1]]
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1], ids.device, x.dtype)
        return self.output(self.blocks(x, mask if self.config.causal else None, is_causal=self.config.causal))


def load(path):  # of the .safetensors file
    said = json.loads(Path(path).with_suffix(".json").read_text("utf-8"))
    model = Decoder(SimpleNamespace(**said["config"]))
    load_model(model, path)
    return model.eval()
'''
"""The program that comes with an export."""


def weights_for_pytorch(model: Transformer) -> dict[str, Tensor]:
    """Return a model's weights under the names that they have in the ``Decoder`` of :data:`DECODER`.

    PyTorch keeps W_Q, W_K and W_V in one matrix, (3 d, d).  A tied table is there once.
    """
    embedding, config = model.embedding, model.config
    weights = {"token.weight": embedding.token.weight, "position": embedding.positions(0, config.context)}
    for i, block in enumerate(model.blocks):
        assert isinstance(block, Block)
        weights |= {f"blocks.layers.{i}.{name}": tensor for name, tensor in weights_of_block(block).items()}
    if model.norm is not None:
        weights |= named("blocks.norm", model.norm)
    if not config.tie_weights:
        weights["output.weight"] = model.output.weight
    return {name: tensor.detach() for name, tensor in weights.items()}


def weights_of_block(block: Block) -> dict[str, Tensor]:
    """Return a block's weights under the names that they have in ``torch.nn.TransformerEncoderLayer``."""
    attention, ffn = block.attention, block.ffn
    projections = (attention.W_Q, attention.W_K, attention.W_V)
    weights = {"self_attn.in_proj_weight": mg.cat([layer.weight for layer in projections])}  # (3 d, d)
    biases = [layer.bias for layer in projections if layer.bias is not None]
    if biases:
        weights["self_attn.in_proj_bias"] = mg.cat(biases)  # (3 d,)
    weights |= named("self_attn.out_proj", attention.W_O)
    weights |= named("linear1", ffn.expand) | named("linear2", ffn.contract)
    return weights | named("norm1", block.norm_attention) | named("norm2", block.norm_ffn)


def named(prefix: str, layer: nn.Module) -> dict[str, Tensor]:
    """Return a layer's parameters by their names after a prefix."""
    return {f"{prefix}.{name}": parameter for name, parameter in layer.named_parameters()}


def export(model: Transformer, tokenizer: Tokenizer, path: Path) -> list[Path]:
    """Write a model for PyTorch: its weights to ``path``, and beside it config and tokenizer, and a program.

    The program, ``decoder.py``, is :data:`DECODER`.  Its ``load(path)`` returns the model, without this package.

    Returns:
        The files that were written.

    Raises:
        ValueError: ``path`` does not end in .safetensors, or one of the files is there and is something else.
        OSError: a file can't be written.
    """
    if path.suffix != ".safetensors":
        raise ValueError(f"the weights go to a file that ends in .safetensors, not '{path}'")
    beside, program = path.with_suffix(".json"), path.with_name("decoder.py")
    for file in (path, beside, program):
        if file.exists() and not is_export(file):
            raise ValueError(f"'{file}' exists and is no export, so it is not replaced: name another file")
    said = {"config": model.config.to_dict(), "tokenizer": tokenizer.to_dict()}
    path.parent.mkdir(parents=True, exist_ok=True)
    save_for_others(weights_for_pytorch(model), path)
    replace_file(beside, [(json.dumps(said, indent=1) + "\n").encode("utf-8")])
    replace_file(program, [DECODER.encode("utf-8")])
    return [path, beside, program]


def is_export(file: Path) -> bool:
    """Return whether a file is one that :func:`export` wrote, and that nobody has changed since."""
    try:
        if file.suffix == ".py":
            return file.read_text(encoding="utf-8") == DECODER
        read = json.loads(file.read_text(encoding="utf-8")) if file.suffix == ".json" else mg.load(file)
    except (ValueError, OSError):
        return False
    expected = {"config", "tokenizer"} if file.suffix == ".json" else {"token.weight", "position"}
    return isinstance(read, dict) and expected <= read.keys()
