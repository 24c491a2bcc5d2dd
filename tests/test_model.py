"""The model: what can be captured of it, each of its options, and the whole of it copied, saved and misused."""

import copy
import math
import re

import numpy as np
import pytest
from models import (
    VARIANTS,
    VOCABULARY,
    array,
    difference,
    draw_ids,
    make_config,
    make_model,
    normalized,
    same,
    spell,
)

import minigrad as mg
from minigrad import nn, optim
from transformer import Transformer

# --- what can be captured ---------------------------------------------------------------------------


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


# --- the options ------------------------------------------------------------------------------------


def rescaled(x, layer):
    """Layer normalisation in NumPy, with a layer's rescale."""
    return normalized(x, layer.eps) * array(layer.weight) + array(layer.bias)


def test_pre_norm_reads_a_normalised_copy_and_adds_to_the_bare_path(double, rng):
    model = make_model(norm="pre")
    ids = draw_ids(rng, 2, 6)
    logits, cache = model.run_with_cache(ids)
    x = array(cache["embed"]) * math.sqrt(8) + array(cache["positions"])
    for i, block in enumerate(model.blocks):
        for name, out in (("attention", "attention.out"), ("ffn", "ffn.out")):
            read = rescaled(x, getattr(block, f"norm_{name}"))
            assert difference(cache[f"blocks.{i}.norm_{name}"], read) < 1e-12
            x = x + array(cache[f"blocks.{i}.{out}"])
            assert difference(cache[f"blocks.{i}.residual_{name}"], x) < 1e-12
        q = array(cache[f"blocks.{i}.norm_attention"]) @ array(block.attention.W_Q.weight).T
        assert difference(cache[f"blocks.{i}.attention.q"].transpose(1, 2).reshape(2, 6, 8), q) < 1e-12
    expected = rescaled(x, model.norm) @ array(model.embedding.token.weight).T
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


# --- the whole model --------------------------------------------------------------------------------


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
