"""The explain page's chapter on backprop: its numbers against other ways to get them."""

import base64
import json
import math

import numpy as np
import pytest

import minigrad as mg
from minigrad.nn import functional as F
from minigrad.op import registry
from minigrad.rule_text import rule_text
from transformer import load_checkpoint
from transformer.explain import Material, Subject
from transformer.explain.backprop import backprop

from .explain_run import make_run

SENTENCE = "The state of it"


@pytest.fixture(scope="module")
def subject(run):
    return Subject(Material(run), SENTENCE)


@pytest.fixture(scope="module")
def chapter(subject):
    """The data as they come out of the page's JSON."""
    return json.loads(json.dumps(backprop(subject), allow_nan=False))


def numbers(entry):
    return np.frombuffer(base64.b64decode(entry["data"]), "<f4").reshape(entry["shape"]).astype(np.float64)


def model_of(run, dtype=mg.float32):
    return load_checkpoint(run).model.to(dtype)


def loss_of(model, ids):
    """The mean surprise by the tokens of the text, in NumPy from the logits on."""
    with mg.no_grad():
        logits = model(mg.tensor([ids]))[0].numpy().astype(np.float64)[:-1]
    shifted = logits - logits.max(-1, keepdims=True)
    return (np.log(np.exp(shifted).sum(-1)) - shifted[np.arange(len(ids) - 1), ids[1:]]).mean()


# --- the numbers ----------------------------------------------------------------------------------


def walks(chapter):
    return {"neuron": chapter["neuron"]["graph"], "head": chapter["head"]["graph"]}


@pytest.mark.parametrize("name", ["neuron", "head"])
def test_a_walk_is_complete_and_consistent(chapter, name):
    """What flows to a card is its gradient, and what arrives at a step is what flowed to its card."""
    graph = walks(chapter)[name]
    received = {graph["steps"][0]["card"]: numbers(graph["steps"][0]["gradient"])}
    for step in graph["steps"]:
        assert np.array_equal(numbers(step["gradient"]), received[step["card"]])
        for flow in step["flows"]:
            assert flow["target"] not in received, "nothing is used twice here"
            received[flow["target"]] = numbers(flow["returned"])
    assert set(received) == set(range(len(graph["cards"])))
    for k, card in enumerate(graph["cards"]):
        assert np.array_equal(numbers(card["gradient"]), received[k])


@pytest.mark.parametrize("name", ["neuron", "head"])
def test_each_rule_is_the_engine_s_and_gives_what_is_shown(chapter, name):
    graph = walks(chapter)[name]
    for step in graph["steps"]:
        operation = registry[graph["cards"][step["card"]]["operation"]]
        g = numbers(step["gradient"])
        for flow in step["flows"]:
            assert flow["rule"] == rule_text(operation, flow["argument"]).expression
            given = {key: numbers(value) for key, value in flow["values"].items() if isinstance(value, dict)}
            given |= {"g": g}
            shown = numbers(flow["returned"])
            if flow["product"]:
                a, a_index, b, b_index, index = flow["product"]
                expected = np.einsum(f"{a_index},{b_index}->{index}", given[a], given[b])
            elif operation.name == "softmax":
                expected = given["out"] * (g - (g * given["out"]).sum())
            elif operation.name == "div":
                expected = g / float(flow["values"]["y"])
            else:
                expected = eval(flow["rule"], operation.rules[flow["argument"]].__globals__, given)
            np.testing.assert_allclose(shown, expected, rtol=1e-5, atol=1e-9)


def test_the_neuron_is_the_model_s_own(run, chapter, subject):
    """Its value is that in the model, its inputs and weights too; the whole gradients are finite differences."""
    neuron, model = chapter["neuron"], model_of(run, mg.float64)
    cards = {card["name"]: card for card in neuron["graph"]["cards"]}
    value = {name: float(numbers(card["value"])) for name, card in cards.items()}
    _, cache = subject.model.run_with_cache(mg.tensor([subject.ids]))
    layer, position, unit = neuron["layer"], neuron["position"], neuron["unit"]
    assert position == len(subject.ids) - 2
    x = cache[f"blocks.{layer}.norm_attention"][0, position].detach().numpy()
    w = subject.model.blocks[layer].ffn.expand.weight[unit].detach().numpy()
    first, second = neuron["inputs"]
    assert set(np.argsort(-np.abs(w * x))[:2]) == {first, second}
    names = [
        f"{letter}{sub}"
        for sub in ("".join("₀₁₂₃₄₅₆₇₈₉"[int(d)] for d in str(i)) for i in (first, second))
        for letter in "xw"
    ]
    assert [value[name] for name in names] == [x[first], w[first], x[second], w[second]]
    assert value["h"] == pytest.approx(neuron["captured"], rel=1e-5)
    assert value["h"] > 0
    for i, shown in zip(neuron["inputs"], neuron["whole"], strict=True):
        weight, losses = model.blocks[layer].ffn.expand.weight, []
        for nudge in (1e-6, -2e-6):
            with mg.no_grad():
                weight[unit, i] += nudge
            losses.append(loss_of(model, subject.ids))
        with mg.no_grad():
            weight[unit, i] += 1e-6
        assert shown == pytest.approx((losses[0] - losses[1]) / 2e-6, rel=1e-3, abs=1e-7)


def test_the_head_is_the_model_s_own(chapter, subject):
    """What arrives at its query is the gradient of that query in the whole model, and z is what the model had."""
    head = chapter["head"]
    layer, h, t = head["layer"], head["head"], head["position"]
    cards = {card["name"]: card for card in head["graph"]["cards"]}
    logits, cache = subject.model.run_with_cache(mg.tensor([subject.ids]))
    q = cache[f"blocks.{layer}.attention.q"]
    loss = F.cross_entropy(logits[0, :-1], mg.tensor(subject.ids[1:]))
    (dq,) = mg.autograd.grad(loss, [q])
    np.testing.assert_allclose(numbers(cards["q"]["gradient"]), dq[0, h, t].numpy(), rtol=1e-3, atol=1e-8)
    pattern = cache[f"blocks.{layer}.attention.pattern"][0, h, t, : head["keys"]].detach().numpy()
    np.testing.assert_allclose(numbers(cards["weights"]["value"]), pattern, rtol=1e-5)
    np.testing.assert_allclose(numbers(cards["z"]["value"]), numbers(head["captured"]), rtol=1e-4, atol=1e-6)
    assert numbers(cards["scores"]["gradient"]).sum() == pytest.approx(0, abs=1e-7)


def test_sizes_are_those_of_every_gradient_of_each_snapshot(run, chapter, subject):
    sizes = chapter["sizes"]
    for file, shown in zip(sorted((run / "snapshots").glob("*.safetensors")), sizes["snapshots"], strict=True):
        model = load_checkpoint(file).model
        model.loss(mg.tensor([subject.ids[:-1]]), mg.tensor([subject.ids[1:]])).backward()
        assert [name for name, _ in model.named_parameters()] == sizes["names"]
        expected = [math.sqrt((p.grad.numpy().astype(np.float64) ** 2).mean()) for p in model.parameters()]
        np.testing.assert_allclose(shown["gradients"], expected, rtol=1e-3)
        assert all(size > 0 for size in shown["gradients"])


def test_residuals_are_measured_on_the_model_and_on_a_deep_stack(chapter, subject):
    yours, deep, normalised = chapter["residuals"]
    logits, cache = subject.model.run_with_cache(mg.tensor([subject.ids]))
    outputs = [cache[f"blocks.{i}.norm_ffn"] for i in range(2)]
    loss = F.cross_entropy(logits[0, :-1], mg.tensor(subject.ids[1:]))
    expected = [gradient.norm().item() for gradient in mg.autograd.grad(loss, outputs)]
    np.testing.assert_allclose(yours["with"][1:], expected, rtol=1e-4)
    assert yours["without"] != yours["with"]
    assert (deep["layers"], deep["layer_norm"], normalised["layer_norm"]) == (12, False, True)
    assert deep["without"][0] / deep["without"][-1] < 0.02
    assert deep["with"][0] / deep["with"][-1] > 10
    assert 0.1 < normalised["with"][0] / normalised["with"][-1] < 10


def test_a_step_is_what_it_says_and_leaves_the_model_alone(run, chapter, subject):
    model, ids = model_of(run), subject.ids
    for name, value in model.state_dict().items():
        assert value.equal(subject.model.state_dict()[name])
    for path in chapter["descent"]["all"]:
        before, after = path["states"][:2]
        assert before["loss"] == pytest.approx(loss_of(model, ids), rel=1e-5)
        stepped = model_of(run)
        stepped.loss(mg.tensor([ids[:-1]]), mg.tensor([ids[1:]])).backward()
        slope = 0.0
        with mg.no_grad():
            for parameter in stepped.parameters():
                slope += (parameter.grad.numpy().astype(np.float64) ** 2).sum()
                parameter -= path["step_size"] * parameter.grad
        assert before["slope"] == pytest.approx(math.sqrt(slope), rel=1e-4)
        assert after["loss"] == pytest.approx(loss_of(stepped, ids), rel=1e-4)


@pytest.mark.parametrize("learned", ["all", "last"])
def test_a_small_step_lowers_the_loss_and_raises_the_right_token(chapter, learned):
    small = chapter["descent"][learned][0]
    before, after = small["states"][:2]
    promised = -small["step_size"] * before["slope"] ** 2
    assert 0.01 * before["loss"] <= -promised <= 0.1 * before["loss"]
    assert after["loss"] - before["loss"] == pytest.approx(promised, rel=0.5)
    which = slice(None) if learned == "all" else slice(-1, None)
    for state in small["states"]:
        assert np.mean(state["losses"][which]) == pytest.approx(state["loss"], rel=1e-5)
    if learned == "last":
        assert math.exp(-after["losses"][-1]) > math.exp(-before["losses"][-1])


def test_a_single_token_has_nothing_to_teach(run):
    assert backprop(Subject(Material(run), "T")) == {"loss": None}


@pytest.mark.parametrize(
    "fields", [{"norm": "pre", "activation": "gelu"}, {"causal": False, "tie_weights": False, "bias": True}]
)
def test_other_models_have_the_chapter_too(tmp_path, fields):
    run = make_run(tmp_path / "run", steps=3, snapshots=(0,), **fields)
    chapter = backprop(Subject(Material(run), SENTENCE))
    assert chapter["head"]["keys"] == (5 if fields.get("causal", True) else len(SENTENCE))
    for stack in chapter["residuals"]:
        assert all(math.isfinite(size) and size > 0 for size in stack["with"] + stack["without"])
    deep = chapter["residuals"][1]
    assert deep["without"][0] / deep["without"][-1] < 0.02
    assert deep["with"][0] / deep["with"][-1] > 1
    json.dumps(chapter, allow_nan=False)
