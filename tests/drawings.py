"""Graphs that several tests draw."""

import minigrad as mg
from transformer import Config, Transformer


def neuron():
    """Return o = tanh(x1 w1 + x2 w2 + b), whose gradients are easy to know: tanh' is ½ here."""
    x1, x2 = mg.tensor(2.0), mg.tensor(0.0)
    w1, w2 = mg.tensor(-3.0, requires_grad=True), mg.tensor(1.0, requires_grad=True)
    b = mg.tensor(6.8813735870195432, requires_grad=True)
    n = x1 * w1 + x2 * w2 + b
    o = n.tanh()
    return mg.draw(o), mg.explain_backward(o), (w1, w2, b, o)


def small_model():
    """Return a two-layer Transformer's loss."""
    model = Transformer(Config(vocab_size=11, n_layers=2, n_heads=2, d_model=8))
    ids = mg.randint(0, 11, (2, 5))
    return model, model.loss(ids, ids)
