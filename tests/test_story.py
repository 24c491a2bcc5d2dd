"""Backpropagation told step by step, and the rules in the words of the engine's own source."""

import numpy as np
import pytest
from drawings import neuron, small_model

import minigrad as mg
from minigrad import nn
from minigrad.draw.walk import walk_back
from minigrad.graph import below
from minigrad.op import op, registry
from minigrad.rule_text import describe, rule_text, with_numbers

# --- the story --------------------------------------------------------------------------------------


def test_the_story_of_a_neuron():
    _, story, _ = neuron()
    text = str(story)
    for line in (
        "o and its gradients, in 5 steps back from the result",
        "  t1 = x1 * w1 = -6",
        "  n = t3 + b = 0.8814",
        "  o = tanh(n) = 0.7071",
        "   to n  g * (1 - out * out) = 1 * (1 - 0.7071 * 0.7071) = 0.5",
        "   to w1  g * x = 0.5 * 2 = 1",
        "  w1  1  from step 5",
    ):
        assert line in text.splitlines()


def test_negative_numbers_stand_in_brackets_where_there_is_something_to_compute():
    w = mg.tensor(-2.0, requires_grad=True)
    text = str(mg.explain_backward((3 - w) * w))
    assert "g * x = 1 * 5 = 5" in text
    assert "g * y = 1 * (-2) = -2" in text
    assert "to w  -g = -(-2) = 2" in text


def test_the_story_tells_where_gradients_add_up():
    x = mg.tensor(3.0, requires_grad=True)
    y = x * x + x
    text = str(mg.explain_backward(y))
    assert "x was used more than once: added to 1 from step 1, that makes 4" in text
    assert "x was used more than once: added to 4 from step" in text
    assert "  x  7  from steps 1 and 2" in text


def test_the_story_tells_what_broadcasting_sums():
    x = mg.ones(2, 3, requires_grad=True)
    b = mg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    text = str(mg.explain_backward((x * b).sum()))
    assert "summed from (2, 3) to (3,), since broadcasting had copied b: [2, 2, 2]" in text
    assert "spread: Copy a reduced gradient to every element that was reduced." in text


def test_a_kernel_tells_its_joint_rule():
    x, w = mg.ones(1, 2), mg.ones(3, 2, requires_grad=True)
    text = str(mg.explain_backward(nn.functional.linear(x, w).sum()))
    assert "   rule: dx = g W, dW = gᵀ x, db = Σ g" in text


def test_a_long_story_is_cut():
    x = mg.tensor(1.0, requires_grad=True)
    y = x
    for _ in range(20):
        y = y * 1.5
    text = str(mg.explain_backward(y, most=3))
    assert "… and 17 more steps" in text
    assert "\n4. " not in text


def test_steps_hold_the_numbers_of_the_engine():
    model, loss = small_model()
    story = mg.explain_backward(loss)
    total = {}
    for step in story.steps:
        for flow in step.flows:
            total[flow.target] = flow.delivered + total.get(flow.target, 0)
            np.testing.assert_array_equal(flow.total, total[flow.target])
    loss.backward()
    for parameter in model.parameters():
        np.testing.assert_array_equal(total[parameter], parameter.grad.numpy())


def test_explaining_needs_what_backward_needs():
    with pytest.raises(RuntimeError, match="one element"):
        mg.explain_backward(mg.ones(2, requires_grad=True) * 2)
    with pytest.raises(RuntimeError, match="does not require a gradient"):
        mg.explain_backward(mg.ones(1) * 2)
    with pytest.raises(RuntimeError, match=r"gradient has shape \(3,\), its output \(2,\)"):
        mg.draw(mg.ones(2, requires_grad=True) * 2, gradient=mg.ones(3))


def test_walking_twice_adds_nothing_up():
    x = mg.tensor(2.0, requires_grad=True)
    places = below((x * x).grad_fn)
    first, second = (walk_back(places, np.ones((), np.float32))[1] for _ in range(2))
    assert first[x] == second[x] == 4


# --- rules as text ----------------------------------------------------------------------------------


def test_every_rule_of_the_registry_has_a_text():
    for name, operation in registry.items():
        for argument in operation.differentiable:
            text = rule_text(operation, argument)
            assert text.source, name
            assert text.expression, name


def test_the_text_of_a_rule_computes_what_the_rule_computes(rng):
    """The expression shown, evaluated, gives what the engine's own function gives."""
    found = 0
    for operation in registry.values():
        for argument, rule in operation.rules.items():
            text = rule_text(operation, argument)
            names = list(rule.__code__.co_varnames[: rule.__code__.co_argcount])
            if text.is_code and set(names) <= {"g", "x", "y", "out"}:
                values = {each: rng.uniform(0.1, 0.9, 3) for each in names}
                shown = eval(text.expression, rule.__globals__, values)
                np.testing.assert_array_equal(shown, rule(*values.values()))
                found += 1
    assert found > 30


def test_lambdas_on_one_line_are_told_apart():
    first, second = (lambda g, x: g * x), (lambda g, x: g / x)
    assert describe(first).expression == "g * x"
    assert describe(second).expression == "g / x"


def test_a_rule_without_source_says_so():
    namespace = {"op": op}
    exec("rule = lambda g, x: g * 2", namespace)
    assert "source can't be read" in describe(namespace["rule"]).expression


def test_numbers_are_put_in_for_names_only():
    text = rule_text(registry["log10"], "x")
    assert with_numbers(text, {"g": "1", "x": "5"}) == "1 / (5 * math.log(10))"
    assert with_numbers(text, {"g": "1"}) is None
