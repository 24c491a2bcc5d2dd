"""The graph as text: every value and gradient the engine's own, large graphs folded by module."""

import gc
import re

import numpy as np
import pytest
from drawings import neuron, small_model

import minigrad as mg
from minigrad import nn
from minigrad.graph import Node, backward_pass, below
from transformer import Config, Transformer

# --- text -------------------------------------------------------------------------------------------


def test_a_neuron_as_text():
    picture, _, _ = neuron()
    assert str(picture).splitlines() == [
        "                shape  value   gradient",
        "o = tanh        ()     0.7071  1",
        "└─ n = add      ()     0.8814  0.5",
        "   ├─ add       ()     -6      0.5",
        "   │  ├─ mul    ()     -6      0.5",
        "   │  │  ├─ x1  ()     2       constant",
        "   │  │  └─ w1  ()     -3      1",
        "   │  └─ mul    ()     0       0.5",
        "   │     ├─ x2  ()     0       constant",
        "   │     └─ w2  ()     1       0",
        "   └─ b         ()     6.881   0.5",
    ]


def test_each_place_is_drawn_once():
    x = mg.tensor([[1.0, 2.0]], requires_grad=True)
    w = mg.tensor([[3.0], [4.0]], requires_grad=True)
    h = x @ w
    lines = str(mg.draw((h * h + h).sum())).splitlines()
    assert [line.split("  (")[0].rstrip() for line in lines[1:]] == [
        "sum",
        "└─ add",
        "   ├─ mul",
        "   │  ├─ h = matmul #1",
        "   │  │  ├─ x",
        "   │  │  └─ w",
        "   │  └─ h = matmul #1 (above)",
        "   └─ h = matmul #1 (above)",
    ]
    assert "[[69, 92]]" in lines[5]  # dL/dx = (2h + 1) wᵀ at h = 11


def test_given_names_go_before_variables():
    x = mg.tensor([1.0], requires_grad=True)
    assert "└─ weight" in str(mg.draw(x.exp(), {"weight": x}))
    assert "└─ x " in str(mg.draw(x.exp()))


def test_the_results_of_one_operation_each_have_a_card():
    x = mg.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    picture = mg.draw((x.split(2)[0] * x.split(2)[1]).sum())
    text = str(picture)
    assert text.count("split[0]") == text.count("split[1]") == 1
    assert re.search(r"split\[0\] +\(2,\) +\[1, 2\] +\[3, 4\]", text)
    assert re.search(r"x #1 +\(4,\) +\[1, 2, 3, 4\] +\[3, 4, 1, 2\]", text)


def test_a_leaf_alone():
    assert str(mg.draw(mg.ones(1, requires_grad=True))).splitlines()[1].split() == ["leaf", "(1,)", "[1]", "[1]"]


def test_an_output_of_several_elements_needs_a_gradient_to_show_any():
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    assert "pass gradient= to weigh" in str(mg.draw(x * x))
    weighed = str(mg.draw(x * x, gradient=mg.tensor([1.0, 10.0])))
    assert "[2, 40]" in weighed
    assert "pass gradient=" not in weighed


def test_a_deep_graph_is_cut_with_a_notice(tmp_path):
    x = mg.tensor([1.0], requires_grad=True)
    y = x
    for _ in range(5000):
        y = y + 1
    picture = mg.draw(y, most=50)
    assert str(picture).count("add") == 50
    assert "Only the 50 cards nearest the output are drawn." in str(picture)
    picture.save(tmp_path / "graph.svg")
    assert "Only the 50 cards" in (tmp_path / "graph.svg").read_text(encoding="utf-8")


# --- values and gradients ---------------------------------------------------------------------------


def test_drawing_changes_nothing():
    model, loss = small_model()
    mg.draw(loss), mg.explain_backward(loss)
    assert all(parameter.grad is None for parameter in model.parameters())
    loss.backward()  # the graph is still there
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_all_values_and_gradients_are_those_of_the_engine():
    model, loss = small_model()
    with mg.autograd.keep_values():
        ids = mg.randint(0, 11, (2, 5))
        loss = model.loss(ids, ids)
    picture = mg.draw(loss, depth=9).picture
    places = below(loss.grad_fn)
    exact = backward_pass([loss.grad_fn], [np.ones((), np.float32)], retain_graph=True, targets=places)
    shown = {key: card for key, card in picture.card_of.items() if isinstance(key, Node | mg.Tensor)}
    assert set(shown) == set(places) == set(exact)
    for key, card in shown.items():
        np.testing.assert_array_equal(card.gradient, exact[key])
        assert card.value.shape == tuple(key.shape)


EXPRESSIONS = {
    "sums": lambda x, w: (x * w + x).sum(1, keepdim=True).exp(),
    "cat": lambda x, w: mg.cat([x, x * w], dim=1).reshape(3, 2).tanh(),
    "stack": lambda x, w: mg.stack([x, x * w, x], dim=0).mean(0),
    "cast": lambda x, w: (x * w).double().exp(),
    "split": lambda x, w: (x * w).split(1, dim=1)[2] * w,
    "views": lambda x, w: (x * w).transpose(0, 1).unsqueeze(0).expand(2, 3, 1)[0, 1:],
    "kernels": lambda x, w: nn.functional.layer_norm((x * w).softmax(-1), (3,)),
    "extremes": lambda x, w: (x * w).max(1)[0] + mg.maximum(x * w, x).amin(),
    "written in place": lambda x, w: (x * w).clone().relu_().pow(2),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_values_that_no_node_kept_are_told_all_the_same(name):
    x = mg.tensor([[1.0, -2.0, 3.0]], requires_grad=True)
    w = mg.tensor([2.0], requires_grad=True)
    output = EXPRESSIONS[name](x, w).sum()
    told = mg.draw(output).picture
    with mg.autograd.keep_values():
        output = EXPRESSIONS[name](x, w).sum()
    kept = mg.draw(output).picture
    assert not told.incomplete
    for one, other in zip(told.cards, kept.cards, strict=True):
        assert one.operation == other.operation
        np.testing.assert_array_equal(one.value, other.value)


def test_a_value_is_never_guessed():
    x = mg.tensor([1.26, 2.0], requires_grad=True)
    y = (x.round(decimals=1) + 1).masked_fill(mg.tensor([True, False]), 7.0).sigmoid()
    lines = str(mg.draw(y.sum())).splitlines()
    for operation in ("masked_fill", "add", "round"):  # decimals, 1 and 7.0 are in no rule, so nobody knows them
        (line,) = (line for line in lines if operation in line.split())
        assert "·" in line
    assert lines[-1].startswith("Values not shown were not kept")
    with mg.autograd.keep_values():
        y = (x.round(decimals=1) + 1).masked_fill(mg.tensor([True, False]), 7.0).sigmoid()
    text = str(mg.draw(y.sum()))
    assert "·" not in text
    assert re.search(r"add\(y=1\) +\(2,\) +\[2\.3, 3\]", text)


def test_an_argument_that_no_rule_names_is_not_given_a_value():
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    filled = mg.draw(x.masked_fill(mg.tensor([True, False]), 7.0).sigmoid().sum()).picture
    assert filled.incomplete
    (card,) = (card for card in filled.cards if card.operation == "masked_fill")
    assert card.value is None


def test_a_promoted_operand_is_shown_as_it_was():
    x = mg.tensor([0.1], requires_grad=True)
    wide = mg.tensor([3.0], dtype=mg.float64)
    for kept in (False, True):
        with mg.autograd.keep_values() if kept else mg.enable_grad():
            y = ((x * 2) * wide).sum()
        cards = mg.draw(y).picture.cards
        assert [card.value.dtype for card in cards if card.operation == "mul"] == [np.float64, np.float32]


def test_after_a_backward_pass_the_leaves_show_their_grad():
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    y = (x * x).exp().sum()
    y.backward()
    text = str(mg.draw(y))
    assert re.search(r"x #1 +\(2,\) +\[1, 2\] +\[5\.437, 218\.4\]", text)
    assert "a backward pass has freed" in text
    with pytest.raises(RuntimeError, match="a backward pass has freed"):
        mg.explain_backward(y)


def test_kept_values_outlive_a_backward_pass():
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    with mg.autograd.keep_values():
        y = (x * x + 1).exp().sum()
    before = str(mg.draw(y))
    y.backward()
    assert str(mg.draw(y)) == before
    with mg.no_grad():
        x -= x.grad  # what is shown is what was, also after a step
    assert str(mg.draw(y)) == before
    assert "·" not in before


def test_a_value_written_since_is_not_used():
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    h = x * 2
    y = h.exp()
    z = (y * y).sum()
    y.detach().mul_(3)
    text = str(mg.draw(z))
    assert "modified in place" in text
    assert "[7.389, 54.6]" not in text.replace("h", "")


def test_hooks_are_left_alone():
    x = mg.tensor(2.0, requires_grad=True)
    h = x * 3
    seen = []
    h.register_hook(seen.append)
    assert "Hooks were not run" in str(mg.draw(h * h))
    assert not seen


def test_a_function_of_ones_own_is_drawn_with_its_rule():
    class Cube(mg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            """g times 3 x²."""
            (x,) = ctx.saved_tensors
            return g * 3 * x**2

    x = mg.tensor(2.0, requires_grad=True)
    y = Cube.apply(x) * 2
    assert "·" in str(mg.draw(y))
    with mg.autograd.keep_values():
        y = Cube.apply(x) * 2
    picture = mg.draw(y)
    assert re.search(r"Cube +\(\) +8 +2\n", str(picture))
    assert re.search(r"x +\(\) +2 +24", str(picture))
    assert "rule for 0: g times 3 x²." in picture.svg


def test_notes_make_no_cycles():
    class Keeper(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(2, 2)

        def forward(self, x):
            self.last = self.inner(x)
            return self.last

    gc.disable()
    try:
        keeper = Keeper()
        y = keeper(mg.ones(1, 2))
        node = y.grad_fn
        assert [call.module() for call in node.calls] == [keeper.inner, keeper]
        del keeper, y
        assert [call.module() for call in node.calls] == [None, None]
    finally:
        gc.enable()


# --- folding ----------------------------------------------------------------------------------------


def titles(picture):
    return [card.title for card in picture.picture.cards]


def test_a_large_graph_is_folded_by_module():
    _, loss = small_model()
    folded = titles(mg.draw(loss))
    assert [title for title in folded if "Block" in title] == ["blocks.1: Block", "blocks.0: Block"]
    assert folded.count("embedding.token.weight") == 1  # used by two modules, so it stands for itself
    assert "blocks.0.attention.W_Q.weight" not in folded
    assert "Modules are folded to one card each" in str(mg.draw(loss))


def test_depth_and_open_say_what_is_opened():
    _, loss = small_model()
    assert titles(mg.draw(loss, depth=0)) == ["loss = cross_entropy", "reshape", "Transformer", "target"]
    assert "blocks.1.attention: MultiHeadAttention" in titles(mg.draw(loss, depth=2))
    opened = titles(mg.draw(loss, open="blocks.1.attention"))
    assert {"blocks.0: Block", "blocks.1.ffn: FeedForward", "blocks.1.attention.W_Q.weight"} <= set(opened)
    assert "blocks.0.ffn: FeedForward" not in opened
    everything = titles(mg.draw(loss, depth=9))
    assert not [title for title in everything if title.startswith("blocks.0:")]
    assert "blocks.1.ffn.expand.bias" in everything


def test_a_folded_card_shows_the_result_and_the_parameters_of_its_module():
    model, loss = small_model()
    picture = mg.draw(loss, depth=1)
    (card,) = (card for card in picture.picture.cards if card.name == "blocks.1")
    size = sum(parameter.numel() for parameter in model.blocks[1].parameters())
    assert f"{size:,} parameters" in card.about[0]
    assert card.shape == "(2, 5, 8)"
    loss.backward()
    norm = float(np.linalg.norm(model.blocks[1].ffn.expand.weight.grad.numpy()))
    assert any("blocks.1.ffn.expand.weight (32, 8)" in line and f"{norm:.4g}" in line for line in card.about)


def test_the_users_data_is_linked_to_a_folded_module_and_its_own_is_not():
    model = Transformer(Config(vocab_size=11, n_layers=1, n_heads=2, d_model=8))
    ids = mg.randint(0, 11, (2, 5))
    loss = model(ids).logsumexp(-1).sum()
    assert titles(mg.draw(loss, depth=0)) == ["loss = sum", "logsumexp(dim=-1)", "Transformer", "ids"]


def test_a_module_that_is_called_twice_has_two_cards():
    layer = nn.Linear(2, 2)
    net = nn.Sequential(layer, nn.Tanh(), layer)
    y = net(mg.ones(1, 2)).sum()
    assert [title for title in titles(mg.draw(y, depth=1)) if "Linear" in title] == ["0: Linear", "0: Linear"]
