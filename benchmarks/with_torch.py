"""The same cases, run by PyTorch: eager, the same architecture, its own fused attention and AdamW."""

from __future__ import annotations

import math
import time

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks import shared
from benchmarks.shared import Timed, timed
from benchmarks.sizes import Size


def set_threads(threads: int) -> None:
    """Use so many threads."""
    torch.set_num_threads(threads)


class Block(nn.Module):
    """The paper's post-norm block."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        d, self.n_heads = size.d_model, size.n_heads
        self.qkv = nn.Linear(d, 3 * d, bias=False)
        self.out = nn.Linear(d, d, bias=False)
        self.expand, self.contract = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
        self.norm_attention, self.norm_ffn = nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, x: torch.Tensor, cache: tuple[torch.Tensor, torch.Tensor] | None = None) -> torch.Tensor:
        """(B, T, d) → (B, T, d); the last T places of the cache, keys and values (B, H, S, d_k), are filled."""
        B, T, d = x.shape
        q, k, v = (t.view(B, T, self.n_heads, -1).transpose(1, 2) for t in self.qkv(x).split(d, dim=2))
        if cache is not None:
            cache[0][:, :, -T:], cache[1][:, :, -T:] = k, v
            k, v = cache
        z = F.scaled_dot_product_attention(q, k, v, is_causal=T > 1)
        x = self.norm_attention(x + self.out(z.transpose(1, 2).reshape(B, T, d)))
        return self.norm_ffn(x + self.contract(F.relu(self.expand(x))))


class Decoder(nn.Module):
    """Embedding and sinusoids, blocks, tied logits."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        d = size.d_model
        self.embedding = nn.Embedding(size.vocab_size, d)
        nn.init.normal_(self.embedding.weight, std=0.02)
        angle = torch.arange(size.context)[:, None] * torch.exp(torch.arange(0, d, 2) * (-math.log(1e4) / d))
        self.register_buffer("position", torch.stack([angle.sin(), angle.cos()], 2).flatten(1))
        self.blocks = nn.ModuleList([Block(size) for _ in range(size.n_layers)])

    def forward(
        self, ids: torch.Tensor, start: int = 0, cache: list[tuple[torch.Tensor, torch.Tensor]] | None = None
    ) -> torch.Tensor:
        """(B, T) → (B, T, V); with a cache for each block, the ids stand at positions start, start + 1, …"""
        end = start + ids.shape[1]
        x = self.embedding(ids) * math.sqrt(self.embedding.weight.shape[1]) + self.position[start:end]
        for i, block in enumerate(self.blocks):
            x = block(x, None if cache is None else (cache[i][0][:, :, :end], cache[i][1][:, :, :end]))
        return x @ self.embedding.weight.T


def step(size: Size, threads: int) -> Timed:
    """One training step: forward, backward, clipping, AdamW."""
    torch.manual_seed(0)
    model = Decoder(size)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.99), weight_decay=0.1)
    ids = torch.randint(size.vocab_size, (size.batch_size, size.context + 1))
    inputs, targets = ids[:, :-1].contiguous(), ids[:, 1:].contiguous()

    def work() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(inputs).view(-1, size.vocab_size), targets.view(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    return timed(work, 10 if size.d_model < 64 else 1)


def chain(length: int) -> Timed:
    """A chain of multiplications of 10 numbers, forward and backward."""
    x = torch.linspace(0.5, 1.5, 10).requires_grad_()
    y = torch.full((10,), 1.0001).requires_grad_()
    g = torch.ones(10)

    def work() -> None:
        z = x
        for _ in range(length):
            z = z * y
        z.backward(g)

    return timed(work)


def kernel(name: str, size: Size) -> Timed:
    """One kernel, forward and backward."""
    return shared.kernel(name, size, torch, F)


def generation(size: Size) -> Timed:
    """The seconds for one new token of those that fill the context, with a key-value cache written by hand."""
    torch.manual_seed(0)
    model = Decoder(size).eval()
    shape = (1, size.n_heads, size.context, size.d_model // size.n_heads)

    @torch.inference_mode()
    def run() -> float:
        began = time.perf_counter()
        cache = [(torch.empty(shape), torch.empty(shape)) for _ in range(size.n_layers)]
        ids = torch.zeros(1, 1, dtype=torch.long)
        written = []
        for position in range(size.context):
            p = (model(ids, position, cache)[0, -1] / 0.8).softmax(-1)
            ids = torch.multinomial(p, 1)[None]
            written.append(ids.item())
        return (time.perf_counter() - began) / len(written)

    return run


def generation_without_cache(size: Size) -> Timed:
    """The seconds for one new token, with the window full and all of it read again for each."""
    torch.manual_seed(0)
    model = Decoder(size).eval()
    prompt = torch.randint(size.vocab_size, (1, size.context))

    @torch.inference_mode()
    def run() -> float:
        ids = prompt
        began = time.perf_counter()
        for _ in range(20):
            p = (model(ids[:, -size.context :])[0, -1] / 0.8).softmax(-1)
            ids = torch.cat([ids, torch.multinomial(p, 1)[None]], 1)
        return (time.perf_counter() - began) / 20

    return run
