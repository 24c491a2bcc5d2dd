"""The table of a model's layers."""

import pytest

import minigrad as mg
from minigrad import nn
from minigrad.nn import functional as F
from transformer import Config, Transformer


def layers(summary):
    return {layer.path: layer for layer in summary.layers}


def test_a_transformer_needs_no_input():
    model = Transformer(Config(vocab_size=65))
    summary = model.summary()
    rows = layers(summary)
    assert rows[""].parameters == model.n_parameters()
    assert rows["blocks.1"].parameters == sum(p.numel() for p in model.blocks[1].parameters())
    assert rows["blocks.1.attention.W_Q"].output == [(1, 128, 128)]
    assert rows[""].output == [(1, 128, 65)]
    d, T, V = 128, 128, 65
    block = 4 * d * d + 2 * d * T + 8 * d * d  # projections, scores and mix, FFN: multiply-adds for each token
    assert rows[""].flops == 2 * T * (4 * block + d * V)
    assert rows["blocks.2"].flops == 2 * T * block
    assert rows["blocks.0.dropout"].calls == 2
    text = str(summary)
    assert "  blocks.0: Block" in text
    assert "    W_Q: Linear" not in text.splitlines()[1]
    assert f"{model.n_parameters():,} parameters" in text


def test_flops_are_those_that_pytorch_counts(torch):
    from torch.utils.flop_counter import FlopCounterMode

    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(8, 12)
            self.second = nn.Linear(12, 4, bias=False)

        def forward(self, x, q, k, v):
            h = self.second(self.first(x).relu())
            attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return (
                h.sum() + attended.sum() + mg.einsum("bij,bjk->bik", q[0], k[0].mT).sum() + (x[0] @ x[0].mT).sum()
            )

    shapes = [(3, 5, 8), (2, 3, 7, 4), (2, 3, 7, 4), (2, 3, 7, 4)]
    summary = Mixed().summary(*[mg.randn(*shape) for shape in shapes])
    x, q, k, v = (torch.randn(*shape) for shape in shapes)
    first, second = torch.nn.Linear(8, 12), torch.nn.Linear(12, 4, bias=False)
    with FlopCounterMode(display=False) as counter:
        second(first(x).relu())
        (q @ k.mT).softmax(-1) @ v  # PyTorch's counter doesn't know its fused attention on a CPU
        torch.einsum("bij,bjk->bik", q[0], k[0].mT)
        x[0] @ x[0].mT
    assert layers(summary)[""].flops == counter.get_total_flops()


def test_memory_is_what_the_graph_keeps():
    net = nn.Sequential(nn.Linear(10, 20), nn.Tanh(), nn.Linear(20, 5))
    rows = layers(net.summary(mg.zeros(3, 10)))
    assert rows["0"].kept == 3 * 10 * 4  # its input, for the weight's gradient
    assert rows["1"].kept == 3 * 20 * 4  # its output
    assert rows["2"].kept == 0  # its input, which is kept already
    assert rows[""].kept == 3 * 30 * 4


def test_a_summary_leaves_everything_as_it_was():
    net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    state = mg.get_rng_state()
    net.summary(mg.ones(2, 4))
    assert mg.get_rng_state().tolist() == state.tolist()
    assert "forward" not in net[0].__dict__
    with pytest.raises(RuntimeError, match="doesn't fit"):
        net.summary(mg.ones(2, 3))
    assert "forward" not in net[0].__dict__


def test_without_an_input_there_are_parameters_alone():
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    net[0].bias.requires_grad_(False)
    text = str(net.summary())
    assert "20 parameters, 4 of them fixed" in text
    assert "model.summary(x)" in text
    assert "output" not in text


def test_a_shared_parameter_counts_once_in_the_total():
    model = Transformer(Config(vocab_size=65, n_layers=1, n_heads=2, d_model=16))
    rows = layers(model.summary())
    assert rows["embedding"].parameters == rows["output"].parameters == 65 * 16
    assert rows[""].parameters == 65 * 16 + rows["blocks.0"].parameters
