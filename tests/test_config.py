"""The config of a model: what it holds, and in which sentence it refuses what it can not hold."""

import dataclasses
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from models import VARIANTS, make_config

from transformer import Config


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
