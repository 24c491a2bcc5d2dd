"""The transformer's options, training, generation and checkpoints, beyond what its explanation claims."""

import copy
import dataclasses
import itertools
import json
import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minigrad as mg
from minigrad import nn, optim
from transformer import (
    Config,
    Recipe,
    Trainer,
    Transformer,
)
from transformer.evaluation import position_losses, token_losses
from transformer.recipe import make_optimizer
from transformer.training import NonFiniteLoss, training_steps

VOCABULARY = 11


@pytest.fixture(autouse=True)
def share_out_small_batches(monkeypatch):
    """Have threads share out batches of any size: those of the tests are small."""
    monkeypatch.setattr(Trainer, "tokens_per_thread", 1)


def make_config(**fields):
    shape = {"vocab_size": VOCABULARY, "n_layers": 2, "n_heads": 2, "d_model": 8, "context": 8}
    return Config(**{**shape, **fields})


def make_model(seed=1, stir=0.3, **fields):
    """Return an untrained model; ``stir`` adds noise to every parameter, so that none has a special value."""
    with mg.fork_rng(seed), mg.no_grad():
        model = Transformer(make_config(**fields))
        for parameter in model.parameters():
            parameter.add_(stir * mg.randn(*parameter.shape))
    return model


def draw_ids(rng, *shape):
    return mg.tensor(rng.integers(0, VOCABULARY, shape))


def array(tensor):
    return tensor.detach().numpy()


def same(a, b):
    """Whether two tensors agree to the last bit."""
    return a.shape == b.shape and a.dtype == b.dtype and array(a).tobytes() == array(b).tobytes()


def difference(a, b):
    """Return the largest difference of two tensors or arrays of one shape."""
    a, b = (array(x) if isinstance(x, mg.Tensor) else np.asarray(x) for x in (a, b))
    assert a.shape == b.shape
    return np.abs(a - b).max()


@pytest.fixture
def double():
    """Make new tensors float64."""
    mg.set_default_dtype(mg.float64)
    yield
    mg.set_default_dtype(mg.float32)


# --- Config -------------------------------------------------------------------------------------------------


def refusal(**fields):
    """Return the sentence with which a config is refused."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the sentence is compared as a whole)
        make_config(**fields)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_heads_that_do_not_divide_the_width_are_refused_with_both_numbers():
    assert refusal(n_heads=3, d_model=128).startswith("3 heads don't divide a width of 128")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("vocab_size", "65"),
        ("vocab_size", None),
        ("n_layers", 2.0),
        ("n_layers", True),
        ("n_heads", None),
        ("d_model", None),
        ("d_model", "8"),
        ("d_model", [8]),
        ("d_ff", 32.0),
        ("d_ff", False),
        ("context", np.int64(8)),
        ("dropout", "0.1"),
        ("dropout", False),
        ("norm", 3),
        ("activation", None),
        ("tie_weights", 1),
        ("bias", "yes"),
        ("causal", None),
        ("layer_norm_eps", "1e-5"),
    ],
)
def test_a_field_of_the_wrong_type_is_named_with_its_type_and_value(field, value):
    kind = {field.name: field.type for field in dataclasses.fields(Config)}[field]
    assert refusal(**{field: value}) == f"{field} must be of type {kind}, not {value!r}"


@pytest.mark.parametrize("field", ["vocab_size", "n_layers", "n_heads", "d_model", "context"])
@pytest.mark.parametrize("value", [0, -1])
def test_a_size_below_1_is_refused(field, value):
    assert refusal(**{field: value}) == f"{field} must be at least 1, not {value}"


def test_a_negative_width_of_the_feed_forward_network_is_refused_and_0_means_four_times_the_width():
    assert refusal(d_ff=-1) == "d_ff must be at least 0, not -1"
    assert make_config(d_ff=0).d_ff == 32
    assert make_config(d_ff=5).d_ff == 5


@pytest.mark.parametrize("value", [1, 1.0, -0.1, math.nan, math.inf])
def test_dropout_lies_between_0_and_1(value):
    assert refusal(dropout=value) == f"dropout must be at least 0 and below 1, not {value}"
    assert make_config(dropout=0).dropout == 0


@pytest.mark.parametrize("value", [0.0, -1e-5, math.nan, math.inf])
def test_what_layer_norm_adds_to_the_variance_is_a_number_above_0(value):
    assert refusal(layer_norm_eps=value).startswith("layer_norm_eps must be ")


@pytest.mark.parametrize(
    ("field", "choices"),
    [("norm", "post, pre"), ("positions", "sinusoidal, learned"), ("activation", "relu, gelu")],
)
def test_an_unknown_choice_is_answered_with_the_known_ones(field, choices):
    assert refusal(**{field: "none"}) == f"{field} must be one of {choices}, not 'none'"


def test_a_config_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        make_config().d_model = 16


def test_presets():
    micro, small, paper = (Config.preset(name, vocab_size=65) for name in ("micro", "small", "paper"))
    assert (micro.n_layers, micro.n_heads, micro.d_model, micro.d_ff, micro.context) == (2, 2, 32, 128, 16)
    assert small == Config(vocab_size=65)
    assert (paper.n_layers, paper.n_heads, paper.d_model, paper.d_ff, paper.dropout) == (6, 8, 512, 2048, 0.1)
    assert (paper.norm, paper.positions, paper.activation) == ("post", "sinusoidal", "relu")
    assert (paper.tie_weights, paper.bias, paper.causal) == (True, False, True)
    assert Config.preset("micro", vocab_size=65, n_layers=3) == dataclasses.replace(micro, n_layers=3)
    assert Config.preset("micro", vocab_size=65, d_model=64).d_ff == 256


def test_an_unknown_preset_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match="no preset 'large': choose one of micro, small, paper"):
        Config.preset("large", vocab_size=65)


OPTIONS = {
    "norm": ["post", "pre"],
    "positions": ["sinusoidal", "learned"],
    "activation": ["relu", "gelu"],
    "tie_weights": [True, False],
    "bias": [False, True],
    "causal": [True, False],
}
VARIANTS = [dict(zip(OPTIONS, values, strict=True)) for values in itertools.product(*OPTIONS.values())]


def spell(options):
    """Return the options that are not the default, as the name of a test case."""
    return "-".join(f"{name}={value}" for name, value in options.items() if value != OPTIONS[name][0]) or "paper"


@given(st.sampled_from(VARIANTS), st.integers(1, 5), st.floats(0, 1, exclude_max=True))
def test_a_config_survives_json(variant, layers, dropout):
    config = make_config(**variant, n_layers=layers, dropout=dropout)
    assert Config.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_a_dict_with_an_unknown_field_or_without_the_vocabulary_is_refused():
    fields = make_config().to_dict()
    with pytest.raises(ValueError, match=r"^unknown config field 'n_head'$"):
        Config.from_dict({**fields, "n_head": 2})
    del fields["vocab_size"]
    with pytest.raises(ValueError, match=r"^the config lacks vocab_size$"):
        Config.from_dict(fields)
    assert Config.from_dict({"vocab_size": 65}) == Config(vocab_size=65)


# --- what can be captured -----------------------------------------------------------------------------------


def expected_shapes(B, T, config):
    d, heads = config.d_model, (B, config.n_heads, T)
    block = {
        **{f"attention.{name}": (*heads, config.d_k) for name in ("q", "k", "v", "z")},
        **{f"attention.{name}": (*heads, T) for name in ("scores", "pattern")},
        **dict.fromkeys(("attention.out", "residual_attention", "norm_attention"), (B, T, d)),
        "ffn.hidden": (B, T, config.d_ff),
        **dict.fromkeys(("ffn.out", "residual_ffn", "norm_ffn"), (B, T, d)),
    }
    shapes = {"embed": (B, T, d), "positions": (T, d), "logits": (B, T, config.vocab_size)}
    for i in range(config.n_layers):
        shapes |= {f"blocks.{i}.{name}": shape for name, shape in block.items()}
    return shapes


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_names_and_shapes_of_what_is_captured(norm, rng):
    model = make_model(norm=norm, n_layers=3, d_ff=20)
    logits, cache = model.run_with_cache(draw_ids(rng, 2, 5))
    assert {name: tensor.shape for name, tensor in cache.items()} == expected_shapes(2, 5, model.config)
    assert cache["logits"] is logits


@pytest.mark.parametrize("variant", VARIANTS, ids=spell)
def test_a_captured_run_has_the_logits_and_gradients_of_an_ordinary_one(double, variant, rng):
    model = make_model(**variant)
    ids, cotangent = draw_ids(rng, 2, 6), mg.tensor(rng.standard_normal((2, 6, VOCABULARY)))
    parameters = list(model.parameters())
    ordinary = model(ids)
    captured, _ = model.run_with_cache(ids)
    assert difference(ordinary, captured) < 1e-12
    first = mg.autograd.grad(ordinary, parameters, cotangent)
    second = mg.autograd.grad(captured, parameters, cotangent)
    for (name, _), a, b in zip(model.named_parameters(), first, second, strict=True):
        assert difference(a, b) < 1e-12 * max(1, np.abs(array(a)).max()), name


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_captured_tensors_can_retain_their_gradients(double, positions, rng):
    model = make_model(positions=positions)
    ids, cotangent = draw_ids(rng, 2, 6), mg.tensor(rng.standard_normal((2, 6, VOCABULARY)))
    logits, cache = model.run_with_cache(ids, retain_grad=True)
    (logits * cotangent).sum().backward()
    assert cache["positions"].requires_grad == (positions == "learned")
    for name, tensor in cache.items():
        if tensor.requires_grad:
            assert tensor.grad.shape == tensor.shape, name
            assert array(tensor.grad).any(), name
    assert difference(cache["logits"].grad, cotangent) == 0
    again, other = model.run_with_cache(ids)
    names = ["embed", "blocks.0.attention.pattern", "blocks.1.ffn.hidden", "blocks.0.residual_ffn"]
    wanted = mg.autograd.grad(again, [other[name] for name in names], cotangent)
    for name, gradient in zip(names, wanted, strict=True):
        assert difference(cache[name].grad, gradient) < 1e-13, name


def test_capturing_under_no_grad_records_nothing(rng):
    model = make_model()
    with mg.no_grad():
        _, cache = model.run_with_cache(draw_ids(rng, 1, 4), retain_grad=True)
    assert not any(tensor.requires_grad for tensor in cache.values())


# --- the options --------------------------------------------------------------------------------------------


def normalized(x, layer):
    """Layer normalisation in NumPy, with a layer's rescale."""
    centered = x - x.mean(-1, keepdims=True)
    unit = centered / np.sqrt((centered**2).mean(-1, keepdims=True) + layer.eps)
    return unit * array(layer.weight) + array(layer.bias)


def test_pre_norm_reads_a_normalised_copy_and_adds_to_the_bare_path(double, rng):
    model = make_model(norm="pre")
    ids = draw_ids(rng, 2, 6)
    logits, cache = model.run_with_cache(ids)
    x = array(cache["embed"]) * math.sqrt(8) + array(cache["positions"])
    for i, block in enumerate(model.blocks):
        for name, out in (("attention", "attention.out"), ("ffn", "ffn.out")):
            read = normalized(x, getattr(block, f"norm_{name}"))
            assert difference(cache[f"blocks.{i}.norm_{name}"], read) < 1e-12
            x = x + array(cache[f"blocks.{i}.{out}"])
            assert difference(cache[f"blocks.{i}.residual_{name}"], x) < 1e-12
        q = array(cache[f"blocks.{i}.norm_attention"]) @ array(block.attention.W_Q.weight).T
        assert difference(cache[f"blocks.{i}.attention.q"].transpose(1, 2).reshape(2, 6, 8), q) < 1e-12
    expected = normalized(x, model.norm) @ array(model.embedding.token.weight).T
    assert difference(logits, expected) < 1e-12
    assert make_model().norm is None


def test_gelu(double, rng):
    model = make_model(activation="gelu")
    _, cache = model.run_with_cache(draw_ids(rng, 2, 6))
    layer = model.blocks[0].ffn.expand
    x = array(cache["blocks.0.norm_attention"]) @ array(layer.weight).T + array(layer.bias)
    expected = np.vectorize(lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2)(x)
    assert difference(cache["blocks.0.ffn.hidden"], expected) < 1e-13


def test_untied_weights_are_two_parameters(double, rng):
    model = make_model(tie_weights=False)
    names = [name for name, _ in model.named_parameters()]
    assert {"embedding.token.weight", "output.weight"} <= {*names}
    logits, cache = model.run_with_cache(draw_ids(rng, 2, 6))
    assert difference(logits, array(cache["blocks.1.norm_ffn"]) @ array(model.output.weight).T) < 1e-12
    assert difference(model.output.weight, model.embedding.token.weight) > 0.1


def test_biases_in_the_attention_projections(double, rng):
    projections = ("W_Q", "W_K", "W_V", "W_O")
    fresh = Transformer(make_config(bias=True))
    without = Transformer(make_config())
    assert fresh.n_parameters() - without.n_parameters() == 2 * 4 * 8
    for block in fresh.blocks:
        assert all((array(getattr(block.attention, name).bias) == 0).all() for name in projections)
    assert all(getattr(without.blocks[0].attention, name).bias is None for name in projections)
    model = make_model(bias=True)
    ids = draw_ids(rng, 2, 6)
    _, cache = model.run_with_cache(ids)
    attention = model.blocks[1].attention
    x = array(cache["blocks.0.norm_ffn"])
    for name, key in (("W_Q", "q"), ("W_K", "k"), ("W_V", "v")):
        layer = getattr(attention, name)
        got = cache[f"blocks.1.attention.{key}"].transpose(1, 2).reshape(2, 6, 8)
        assert difference(got, x @ array(layer.weight).T + array(layer.bias)) < 1e-12
    z = array(cache["blocks.1.attention.z"].transpose(1, 2).reshape(2, 6, 8))
    expected = z @ array(attention.W_O.weight).T + array(attention.W_O.bias)
    assert difference(cache["blocks.1.attention.out"], expected) < 1e-12


def test_without_the_mask_tokens_see_what_comes_later(double, rng):
    model = make_model(causal=False)
    ids = draw_ids(rng, 2, 6)
    logits, cache = model.run_with_cache(ids)
    scores, pattern = (array(cache[f"blocks.0.attention.{name}"]) for name in ("scores", "pattern"))
    assert np.isfinite(scores).all()
    assert (pattern > 0).all()
    assert difference(pattern, np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)) < 1e-14
    changed = ids.clone()
    changed[:, 5] = (changed[:, 5] + 1) % VOCABULARY
    assert difference(model(ids)[:, 0], model(changed)[:, 0]) > 1e-3
    causal = make_model()
    assert difference(causal(ids)[:, 0], causal(changed)[:, 0]) == 0
    assert difference(causal(ids), logits) > 1e-3


@pytest.mark.parametrize("causal", [False, True])
def test_texts_of_different_lengths_share_a_batch_as_if_each_were_alone(double, causal, rng):
    model = make_model(causal=causal)
    ids, lengths = draw_ids(rng, 3, 6), [6, 1, 4]
    mask = mg.arange(6) < mg.tensor(lengths).unsqueeze(1)
    logits = model(ids, attention_mask=mask)
    for row, length in enumerate(lengths):
        alone = model(ids[row : row + 1, :length])
        assert difference(logits[row, :length], alone[0]) < 1e-13
    captured, cache = model.run_with_cache(ids, attention_mask=mask)
    assert difference(logits, captured) < 1e-13
    pattern = array(cache["blocks.1.attention.pattern"])
    assert (pattern[2, :, :, 4:] == 0).all()
    assert (pattern[2, :, 3, :4] > 0).all()
    if not causal:
        assert difference(logits[1, :1], model(ids)[1, :1]) > 1e-3, "without the mask, padding is seen"


def test_nothing_flows_back_into_a_masked_token_and_a_causal_model_stays_causal(double, rng):
    model, ids = make_model(), draw_ids(rng, 1, 5)
    mask = mg.tensor([[False, True, True, True, True]])
    logits, cache = model.run_with_cache(ids, retain_grad=True, attention_mask=mask)
    logits[0, 2].sum().backward()
    gradient = array(cache["embed"].grad)[0]
    assert np.abs(gradient).max(-1).astype(bool).tolist() == [False, True, True, False, False]
    assert np.isfinite(array(logits)).all(), "also of the first, which sees nothing"


@pytest.mark.parametrize(
    "mask", [mg.ones(2, 6), mg.ones(2, 5).bool(), mg.ones(6, 2).bool(), mg.ones(2, 1, 1, 6).bool()]
)
def test_a_mask_of_another_shape_or_type_is_refused_with_both(mask, rng):
    expected = rf"boolean of shape \(2, 6\), .* not {mask.dtype} of shape {re.escape(str(tuple(mask.shape)))}$"
    with pytest.raises(ValueError, match=expected):
        make_model()(draw_ids(rng, 2, 6), attention_mask=mask)


def test_a_cache_takes_no_mask(rng):
    model, mask = make_model(), mg.ones(1, 1).bool()
    cache = model.new_cache()
    with mg.no_grad(), pytest.raises(ValueError, match="without attention_mask"):
        model(draw_ids(rng, 1, 1), cache=cache, attention_mask=mask)
    assert cache.lengths == [0]


def test_learned_positions_are_rows_of_a_table(double, rng):
    model = make_model(positions="learned")
    (table,) = (p for name, p in model.named_parameters() if name == "embedding.position")
    assert table.shape == (8, 8)
    ids = draw_ids(rng, 2, 5)
    logits, cache = model.run_with_cache(ids)
    assert difference(cache["positions"], array(table)[:5]) == 0
    (logits * mg.tensor(rng.standard_normal(logits.shape))).sum().backward()
    assert array(table.grad).any(-1).tolist() == [True] * 5 + [False] * 3
    assert "embedding.position" in model.state_dict()
    assert "embedding.position" not in make_model().state_dict()


def test_dropout_is_for_training_only(rng):
    ids = draw_ids(rng, 2, 8)
    model, plain = make_model(dropout=0.5), make_model()
    with mg.no_grad():
        assert same(model.eval()(ids), plain(ids))
        assert same(model(ids), model(ids))
        model.train()
        assert not same(model(ids), model(ids))
        outputs = []
        for _ in range(2):
            with mg.fork_rng(5):
                outputs.append(model(ids))
        assert same(*outputs)


def test_dropout_falls_on_the_embedding_sum_and_each_sublayer_and_not_on_the_weights(rng):
    model = make_model(dropout=0.25, d_model=64, context=64)
    seen = []
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.register_forward_hook(lambda _, args, out: seen.append((args[0], out)))
    _, cache = model.run_with_cache(draw_ids(rng, 8, 64))
    entering = cache["embed"] * 8.0 + cache["positions"]
    sums = [entering] + [cache[f"blocks.{i}.{name}.out"] for i in range(2) for name in ("attention", "ffn")]
    assert len(seen) == len(sums) == 5
    for (before, after), expected in zip(seen, sums, strict=True):
        assert same(before, expected)
        before, after = array(before), array(after)
        kept = after != 0
        assert abs(kept.mean() - 0.75) < 0.01
        assert np.abs(after[kept] / before[kept] * 0.75 - 1).max() < 1e-6
    for i in range(2):
        pattern = array(cache[f"blocks.{i}.attention.pattern"])
        assert np.abs(pattern.sum(-1) - 1).max() < 1e-6


# --- the whole model ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS[:: len(VARIANTS) // 8], ids=spell)
def test_a_state_dict_gives_the_same_model_again(variant, rng):
    model, other = make_model(**variant), make_model(seed=2, **variant)
    ids = draw_ids(rng, 2, 6)
    assert not same(model(ids), other(ids))
    other.load_state_dict(model.state_dict())
    assert same(model(ids), other(ids))
    assert (other.output.weight is other.embedding.token.weight) == variant["tie_weights"]


@pytest.mark.parametrize("change", [copy.deepcopy, nn.Module.double, nn.Module.eval])
def test_a_tied_table_stays_tied(change, rng):
    model = make_model()
    count = model.n_parameters()
    changed = change(model)
    assert changed.output.weight is changed.embedding.token.weight
    assert changed.n_parameters() == count
    ids = draw_ids(rng, 1, 4)
    optimizer = optim.SGD(changed.parameters(), lr=0.1)
    changed.loss(ids, ids).backward()
    optimizer.step()
    assert same(changed.output.weight, changed.embedding.token.weight)
    if change is copy.deepcopy:
        assert not same(changed.output.weight, model.output.weight)


def test_a_float64_model_computes_in_float64(rng):
    model = make_model().double()
    ids = draw_ids(rng, 2, 20)
    logits, cache = model.run_with_cache(ids)
    assert {tensor.dtype for tensor in cache.values()} == {np.dtype(np.float64)}
    assert logits.isfinite().all()


@pytest.mark.parametrize("shape", [(), (3,), (1, 2, 3)])
def test_ids_of_another_shape_are_refused_with_it(shape, rng):
    with pytest.raises((ValueError, RuntimeError), match=r"\(B, T\)") as caught:
        make_model()(draw_ids(rng, *shape))
    assert str(shape) in str(caught.value)


@pytest.mark.parametrize("token", [-1, VOCABULARY])
def test_a_token_outside_the_vocabulary_is_refused(token):
    with pytest.raises(IndexError, match=rf"{token} .*{VOCABULARY} rows"):
        make_model()(mg.tensor([[1, token]]))


def torch_logits(torch, weights, ids, config):
    """Return the logits of a decoder written in PyTorch alone, given its weights by name."""
    functional = torch.nn.functional
    d, heads = config.d_model, config.n_heads
    B, T = ids.shape

    def linear(x, name):
        return functional.linear(x, weights[f"{name}.weight"], weights.get(f"{name}.bias"))

    def norm(x, name):
        return functional.layer_norm(x, (d,), weights[f"{name}.weight"], weights[f"{name}.bias"])

    def attention(x, name):
        q, k, v = (linear(x, f"{name}.W_{i}").view(B, T, heads, -1).transpose(1, 2) for i in "QKV")
        z = functional.scaled_dot_product_attention(q, k, v, is_causal=config.causal)
        return linear(z.transpose(1, 2).reshape(B, T, d), f"{name}.W_O")

    def ffn(x, name):
        activation = functional.relu if config.activation == "relu" else functional.gelu
        return linear(activation(linear(x, f"{name}.expand")), f"{name}.contract")

    if config.positions == "learned":
        positions = weights["embedding.position"][:T]
    else:
        angle = torch.arange(T)[:, None] / 10000 ** (torch.arange(0, d, 2, dtype=torch.float64) / d)
        positions = torch.stack([angle.sin(), angle.cos()], -1).reshape(T, d)
    table = weights["embedding.token.weight"]
    x = table[ids] * d**0.5 + positions
    for i in range(config.n_layers):
        for name, layer in (("attention", attention), ("ffn", ffn)):
            block = f"blocks.{i}"
            if config.norm == "pre":
                x = x + layer(norm(x, f"{block}.norm_{name}"), f"{block}.{name}")
            else:
                x = norm(x + layer(x, f"{block}.{name}"), f"{block}.norm_{name}")
    if config.norm == "pre":
        x = norm(x, "norm")
    return functional.linear(x, table if config.tie_weights else weights["output.weight"])


@pytest.mark.parametrize(
    "options",
    [{}, {name: values[1] for name, values in OPTIONS.items()}, *({n: v[1]} for n, v in OPTIONS.items())],
    ids=spell,
)
def test_parity_with_a_decoder_in_pytorch(torch, double, options, rng):
    model = make_model(n_layers=3, n_heads=4, d_model=16, **options)
    ids, targets = draw_ids(rng, 3, 7), draw_ids(rng, 3, 7)
    weights = {
        name: torch.tensor(array(parameter), requires_grad=True) for name, parameter in model.named_parameters()
    }
    expected = torch_logits(torch, weights, torch.tensor(ids.numpy()), model.config)
    assert difference(model(ids), expected.detach().numpy()) < 1e-11
    loss = torch.nn.functional.cross_entropy(
        expected.reshape(-1, VOCABULARY), torch.tensor(targets.numpy()).reshape(-1), label_smoothing=0.1
    )
    loss.backward()
    ours = model.loss(ids, targets, label_smoothing=0.1)
    assert ours.item() == pytest.approx(loss.item(), rel=1e-13)
    ours.backward()
    for name, parameter in model.named_parameters():
        gradient = weights[name].grad.numpy()
        assert difference(parameter.grad, gradient) < 1e-11 * max(1, np.abs(gradient).max()), name


def test_parity_in_float32(torch, rng):
    model = make_model(n_layers=3, n_heads=4, d_model=16)
    ids, targets = draw_ids(rng, 3, 7), draw_ids(rng, 3, 7)
    weights = {
        name: torch.tensor(array(parameter).astype(np.float64), requires_grad=True)
        for name, parameter in model.named_parameters()
    }
    expected = torch_logits(torch, weights, torch.tensor(ids.numpy()), model.config)
    assert difference(model(ids), expected.detach().numpy()) < 1e-5
    torch.nn.functional.cross_entropy(
        expected.reshape(-1, VOCABULARY), torch.tensor(targets.numpy()).reshape(-1)
    ).backward()
    model.loss(ids, targets).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad.dtype == np.float32
        assert difference(parameter.grad, weights[name].grad.numpy()) < 1e-5, name


# --- training: one step -------------------------------------------------------------------------------------


def one_step(threads, ids, targets, steps=1, seed=1, **fields):
    """Train from the same start with this number of threads; return losses, weights, gradients, norms."""
    options = {name: fields.pop(name) for name in ("clip_norm", "label_smoothing") if name in fields}
    model = make_model(**fields)
    trainer = Trainer(model, optim.SGD(model.parameters(), lr=0.1), threads, **options)
    with mg.fork_rng(seed):
        losses = [trainer.step(ids, targets) for _ in range(steps)]
    gradients = [parameter.grad for parameter in model.parameters()]
    return losses, list(model.parameters()), gradients, trainer.gradient_norm


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
@pytest.mark.parametrize(("threads", "batch"), [(2, 4), (2, 5), (2, 2), (3, 4), (4, 2), (2, 1), (5, 5)])
def test_any_number_of_threads_learns_the_same(double, threads, batch, positions, rng):
    ids, targets = draw_ids(rng, batch, 6), draw_ids(rng, batch, 6)
    alone, weights, gradients, norm = one_step(1, ids, targets, steps=3, positions=positions)
    losses, others, other_gradients, other_norm = one_step(threads, ids, targets, steps=3, positions=positions)
    assert losses == pytest.approx(alone, rel=1e-13)
    assert other_norm == pytest.approx(norm, rel=1e-12)
    for a, b in zip(weights + gradients, others + other_gradients, strict=True):
        assert difference(a, b) < 1e-13


@pytest.mark.parametrize("dropout", [0.0, 0.2])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_same_number_of_threads_repeats_to_the_bit(threads, dropout, rng):
    ids, targets = draw_ids(rng, 6, 8), draw_ids(rng, 6, 8)
    losses, weights, *_ = one_step(threads, ids, targets, steps=4, dropout=dropout)
    again, same_weights, *_ = one_step(threads, ids, targets, steps=4, dropout=dropout)
    assert losses == again
    assert all(same(a, b) for a, b in zip(weights, same_weights, strict=True))
    other, *_ = one_step(threads, ids, targets, steps=4, dropout=dropout, seed=2)
    assert (other == losses) == (dropout == 0)


def test_each_part_of_a_batch_has_dropout_of_its_own(rng):
    """Two equal sequences in two threads must not drop the same elements."""
    ids = draw_ids(rng, 1, 8)
    model = make_model(dropout=0.5)
    parts = []
    model.embedding.dropout.register_forward_hook(lambda _, args, out: parts.append(array(out) == 0))
    trainer = Trainer(model, optim.SGD(model.parameters(), lr=0.1), threads=2)
    for _ in range(2):
        trainer.step(mg.cat([ids, ids]), mg.cat([ids, ids]))
    assert len(parts) == 4
    assert all((a != b).any() for a, b in itertools.combinations(parts, 2))


def test_the_step_reports_the_loss_before_it_and_the_gradients_of_that_loss(double, rng):
    ids, targets = draw_ids(rng, 4, 6), draw_ids(rng, 4, 6)
    (loss,), weights, gradients, norm = one_step(1, ids, targets, clip_norm=None)
    model = make_model()
    before = model.loss(ids, targets)
    before.backward()
    assert loss == pytest.approx(before.item(), rel=1e-15)
    joint = math.sqrt(sum((array(p.grad) ** 2).sum() for p in model.parameters()))
    assert norm == pytest.approx(joint, rel=1e-12)
    for start, gradient, weight in zip(model.parameters(), gradients, weights, strict=True):
        assert difference(start.grad, gradient) < 1e-15
        assert difference(weight, array(start) - 0.1 * array(gradient)) < 1e-15


@pytest.mark.parametrize("threads", [1, 2])
def test_long_gradients_are_scaled_down_to_the_clip_norm(double, threads, rng):
    ids, targets = draw_ids(rng, 4, 6), draw_ids(rng, 4, 6)
    _, _, whole, _ = one_step(threads, ids, targets, clip_norm=None)
    length = math.sqrt(sum((array(gradient) ** 2).sum() for gradient in whole))
    _, _, clipped, norm = one_step(threads, ids, targets, clip_norm=0.01)
    assert norm == pytest.approx(length, rel=1e-12)
    assert norm > 0.02
    assert math.sqrt(sum((array(gradient) ** 2).sum() for gradient in clipped)) == pytest.approx(0.01, rel=1e-4)
    _, _, kept, _ = one_step(threads, ids, targets, clip_norm=100.0)
    assert all(same(a, b) for a, b in zip(kept, whole, strict=True))


@pytest.mark.parametrize("threads", [1, 2])
def test_labels_are_smoothed_in_training(double, threads, rng):
    ids, targets = draw_ids(rng, 4, 6), draw_ids(rng, 4, 6)
    (loss,), *_ = one_step(threads, ids, targets, label_smoothing=0.1)
    assert loss == pytest.approx(make_model().loss(ids, targets, 0.1).item(), rel=1e-14)
    assert loss != pytest.approx(make_model().loss(ids, targets).item(), rel=1e-3)


@pytest.fixture
def two_blas_threads():
    """Have matrix products use two threads, and after the test as many as before."""
    before = mg.get_num_threads()
    if not mg.set_num_threads(2):
        pytest.skip("NumPy's matrix products can't be told how many threads to use")
    yield
    mg.set_num_threads(before)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.usefixtures("two_blas_threads")
def test_a_step_leaves_the_threads_of_matrix_products_as_they_were_even_if_it_fails(threads, rng):
    model = make_model()
    trainer = Trainer(model, optim.SGD(model.parameters(), lr=0.1), threads)
    during = []
    model.embedding.register_forward_hook(lambda *_: during.append(mg.get_num_threads()))
    with pytest.raises(IndexError, match="99"):
        trainer.step(mg.tensor([[1, 2], [3, 4]]), mg.tensor([[1, 2], [3, 99]]))
    assert mg.get_num_threads() == 2
    assert math.isfinite(trainer.step(draw_ids(rng, 2, 4), draw_ids(rng, 2, 4)))
    assert mg.get_num_threads() == 2
    assert during == [1] * 2 * threads


# --- training: the recipe -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("steps", "warmup"), [(100, 10), (50, 0), (30, 29), (10, 100), (1, 0)])
def test_the_rate_rises_in_a_line_and_falls_along_a_cosine(steps, warmup):
    recipe = Recipe(steps=steps, warmup_steps=warmup, schedule="cosine")
    rates = [recipe.rate(step) for step in range(steps + 1)]
    rise = rates[: min(warmup, steps + 1)]
    assert rise == pytest.approx([(step + 1) / (warmup + 1) for step in range(len(rise))], rel=1e-15)
    fall = rates[warmup:]
    width = max(1, steps - warmup)
    expected = [math.cos(math.pi / 2 * i / width) ** 2 for i in range(len(fall))]
    assert fall == pytest.approx(expected, rel=1e-12, abs=1e-15)
    if warmup < steps:
        assert rates[warmup] == 1
        assert rates[-1] == pytest.approx(0, abs=1e-15)
        assert all(rate > 0 for rate in rates[:-1])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *((name, value) for name in ("steps", "batch_size", "evaluate_every", "threads") for value in (0, -3)),
        *(
            (name, v)
            for name in ("learning_rate", "matrix_rate", "epsilon")
            for v in (0.0, -1.0, math.inf, math.nan)
        ),
        *((name, v) for name in ("momentum", "beta1", "beta2", "label_smoothing") for v in (-0.1, 1.0, math.nan)),
        *((name, v) for name in ("warmup_steps", "weight_decay", "clip_norm") for v in (-1, math.inf, math.nan)),
        ("sequences_at_once", -1),
    ],
)
def test_a_recipe_names_what_is_out_of_range(field, value):
    with pytest.raises(ValueError, match=rf"^{field} must be .*, not {value}$"):
        Recipe(**{field: value})


def test_matrices_decay_and_vectors_do_not():
    model = make_model(bias=True, positions="learned")
    recipe = Recipe(optimizer="adamw", learning_rate=0.5, weight_decay=0.1, beta1=0.8, beta2=0.7)
    optimizer = make_optimizer(model, recipe)
    assert isinstance(optimizer, optim.AdamW)
    start = {name: array(parameter).copy() for name, parameter in model.named_parameters()}
    for parameter in model.parameters():
        parameter.grad = mg.zeros(*parameter.shape)
    optimizer.step()
    for name, parameter in model.named_parameters():
        expected = start[name] * (1 - 0.5 * 0.1) if parameter.ndim > 1 else start[name]
        assert difference(parameter, expected) < 1e-6, name
    assert all(tuple(group["betas"]) == (0.8, 0.7) for group in optimizer.param_groups)
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(start)


@pytest.mark.parametrize("tie_weights", [True, False])
def test_muon_steps_the_matrices_of_the_blocks_and_adamw_all_else(tie_weights):
    model = make_model(bias=True, positions="learned", norm="pre", tie_weights=tie_weights)
    recipe = Recipe(optimizer="muon", matrix_rate=0.3, momentum=0.8, learning_rate=0.5, weight_decay=0.1)
    optimizer = make_optimizer(model, recipe)
    adamw, muon = optimizer.optimizers
    assert (type(adamw), type(muon), muon.threads) == (optim.AdamW, optim.Muon, recipe.threads)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    stepped = [[names[id(p)] for group in part.param_groups for p in group["params"]] for part in (adamw, muon)]
    assert sorted(stepped[0] + stepped[1]) == sorted(names.values())
    assert all(name.startswith("blocks.") and name.endswith("weight") for name in stepped[1])
    assert len(stepped[1]) == 2 * 6
    assert muon.param_groups[0]["lr"] == 0.3
    assert muon.param_groups[0]["momentum"] == 0.8
    decays = {p: group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}
    assert all(decays[p] == (0.1 if p.ndim > 1 else 0) for p in model.parameters())


def test_training_steps_report_what_they_did(rng):
    ids = draw_ids(rng, 300)
    model = make_model(stir=0).eval()
    recipe = Recipe(steps=12, batch_size=4, learning_rate=0.01, warmup_steps=3, threads=1)
    reports = list(training_steps(model, ids, recipe))
    assert model.training
    assert [report.step for report in reports] == list(range(1, 13))
    assert [report.tokens for report in reports] == [4 * 8 * step for step in range(1, 13)]
    rates = [0.01 * recipe.rate(step) for step in range(12)]
    assert [report.learning_rate for report in reports] == pytest.approx(rates, rel=1e-12)
    smooth = reports[0].loss
    for report in reports:
        smooth = smooth + 0.05 * (report.loss - smooth)
        assert report.smooth_loss == pytest.approx(smooth, rel=1e-12)
        assert report.gradient_norm > 0
        assert report.tokens_per_second > 0
    seconds = [report.seconds for report in reports]
    assert seconds == sorted(seconds)


def test_a_loss_that_is_no_number_ends_the_training(rng):
    model = make_model()
    with mg.no_grad():
        model.blocks[1].ffn.contract.bias[0] = math.nan
    with pytest.raises(NonFiniteLoss, match=r"the loss became infinite or NaN at step 1 .*try a lower"):
        list(training_steps(model, draw_ids(rng, 100), Recipe(steps=3, batch_size=2, threads=1)))


# --- the score of a text ------------------------------------------------------------------------------------


class Bigrams:
    """A model whose guess depends on the last token alone, so that the cost of each token is known."""

    def __init__(self, table, context):
        self.table, self.config, self.training = table, make_config(context=context), True

    def eval(self):
        self.training = False

    def train(self, mode):
        self.training = mode

    def __call__(self, ids):
        assert not self.training
        assert ids.shape[1] <= self.config.context
        return self.table[ids]


LENGTHS = [(2, 1), (3, 1), (3, 2), (5, 4), (8, 7), (9, 8), (9, 3), (10, 9), (10, 1), (31, 30), (64, 17), (65, 64)]


@pytest.mark.parametrize("context", [1, 2, 3, 8, 9])
@pytest.mark.parametrize(("length", "scored"), LENGTHS)
def test_each_token_is_scored_exactly_once(double, context, length, scored, rng):
    ids = mg.tensor(rng.permutation(length))
    table = mg.tensor(rng.standard_normal((length, length)))
    costs = -array(table.log_softmax(-1))[ids.numpy()[:-1], ids.numpy()[1:]]
    model = Bigrams(table, context)
    for batch_size in (1, 3, 64):
        batches = []
        losses = token_losses(model, ids, scored, batch_size, threads=2, on_batch=batches.append)
        assert losses.tolist() == pytest.approx(costs[length - 1 - scored :].tolist(), rel=1e-12)
        assert sum(batches) == scored
    assert model.training


@pytest.mark.parametrize("context", [1, 7, 8])
@pytest.mark.parametrize(("length", "scored"), LENGTHS)
def test_a_uniform_model_costs_ln_v_for_each_token(context, length, scored, rng):
    model = make_model(stir=0, context=context)
    nn.init.zeros_(model.embedding.token.weight)
    losses = token_losses(model, draw_ids(rng, length), scored)
    assert losses.tolist() == pytest.approx([math.log(VOCABULARY)] * scored, rel=1e-6)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
@pytest.mark.parametrize(("length", "scored"), LENGTHS)
def test_every_token_is_read_after_half_a_context(double, length, scored, positions, rng):
    """The windows that a loop over tokens would choose: a new one whenever the last is used up."""
    model = make_model(positions=positions, dropout=0.3)
    ids = draw_ids(rng, length)
    context = min(8, length - 1)
    expected, end = [], 0
    model.eval()
    for token in range(length - scored, length):
        if token > end or token == length - scored:
            wanted = token + max(1, context // 2) - 1  # the last token this window is needed for
            end = min(max(wanted, context), length - 1)
            start = end - context
            log_p = array(model(ids[start:end].unsqueeze(0))[0].log_softmax(-1))
        assert token - start >= min(token, context - max(1, context // 2) + 1)
        expected.append(-log_p[token - 1 - start, ids[token].item()])
    for mode in (True, False):
        model.train(mode)
        assert token_losses(model, ids, scored).tolist() == pytest.approx(expected, rel=1e-12)
        assert model.training == mode


@pytest.mark.parametrize("scored", [6, 7, -1])
def test_more_tokens_than_have_one_before_them_cannot_be_scored(scored, rng):
    with pytest.raises(ValueError, match=rf"(^| ){scored}\b"):
        token_losses(make_model(), draw_ids(rng, 6), scored)
    assert token_losses(make_model(), draw_ids(rng, 6), 0).shape == (0,)


@pytest.mark.parametrize("length", [1, 5, 8, 20])
def test_losses_by_position_are_those_of_windows_side_by_side(double, length, rng):
    """Row w, column t: the loss of the token after the first t + 1 of window w, also past the context of 8."""
    model = make_model(dropout=0.3)
    ids = draw_ids(rng, 90)
    batches = []
    losses = position_losses(model, ids, length, 1000, threads=2, on_batch=batches.append)
    assert losses.shape == (89 // length, length)
    assert sum(batches) == losses.numel()
    model.eval()
    for w, row in enumerate(array(losses)):
        window = ids[w * length : w * length + length + 1]
        log_p = array(model(window[:-1].unsqueeze(0))[0].log_softmax(-1))
        np.testing.assert_allclose(row, -log_p[np.arange(length), window.numpy()[1:]], rtol=1e-12)
    fewer = position_losses(model, ids, length, 30)
    step = (89 // length) // max(1, 30 // length)
    np.testing.assert_array_equal(array(fewer), array(losses)[::step])
    assert fewer.numel() <= 90


def test_losses_by_position_need_one_window(rng):
    with pytest.raises(ValueError, match="8 tokens are too few for one window of 8"):
        position_losses(make_model(), draw_ids(rng, 8), 8, 100)
