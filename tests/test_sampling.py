"""Drawing a token: temperature, top-k and top-p are what they say."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from models import LETTERS, array, difference, make_model

import minigrad as mg
from transformer import generate
from transformer.generation import Sampling


def softmax(x):
    weights = np.exp(x - x.max())
    return weights / weights.sum()


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
def test_temperature_divides_the_logits(temperature, rng):
    logits = rng.standard_normal(20) * 3
    got = Sampling(temperature).distribution(mg.tensor(logits))
    assert difference(got, softmax(logits / temperature)) < 1e-15
    assert got.dtype == np.float64


def test_temperature_0_is_certain_of_the_likeliest_token():
    assert Sampling(0).distribution(mg.tensor([1.0, 3.0, 2.0])).tolist() == [0, 1, 0]
    assert Sampling(0).distribution(mg.tensor([3.0, 1.0, 3.0])).tolist() == [1, 0, 0]
    for temperature in (5e-324, 1e-300, 1e-3):
        assert Sampling(temperature).distribution(mg.tensor([1.0, 3.0, 2.0])).tolist() == [0, 1, 0]


@pytest.mark.parametrize("k", [1, 2, 5, 19, 20, 21, 1000])
def test_top_k_keeps_the_k_likeliest(k, rng):
    logits = rng.standard_normal(20)
    p = softmax(logits)
    kept = np.argsort(-logits)[:k]
    expected = np.zeros(20)
    expected[kept] = p[kept] / p[kept].sum()
    assert difference(Sampling(top_k=k).distribution(mg.tensor(logits)), expected) < 1e-15


@pytest.mark.parametrize("top_p", [1e-9, 0.1, 0.4999, 0.5001, 0.7999, 0.8001, 0.95, 1.0])
def test_top_p_keeps_the_fewest_that_reach_it(top_p):
    p = np.array([0.15, 0.5, 0.05, 0.3])
    kept = {0.1: 1, 0.4999: 1, 1e-9: 1, 0.5001: 2, 0.7999: 2, 0.8001: 3, 0.95: 3, 1.0: 4}[top_p]
    order = [1, 3, 0, 2][:kept]
    if top_p == 0.95:
        top_p -= 1e-9
    expected = np.zeros(4)
    expected[order] = p[order] / p[order].sum()
    assert difference(Sampling(top_p=top_p).distribution(mg.tensor(np.log(p))), expected) < 1e-15


def test_top_p_of_1_keeps_even_the_rarest_tokens():
    p = Sampling().distribution(mg.tensor([60.0, 0.0, 20.0]))
    assert p[1].item() == pytest.approx(math.exp(-60), rel=1e-12, abs=0)


def test_top_k_and_top_p_are_both_respected():
    logits = mg.tensor(np.log([0.4, 0.3, 0.2, 0.1]))
    both = Sampling(top_k=2, top_p=0.85).distribution(logits)
    assert difference(both, [4 / 7, 3 / 7, 0, 0]) < 1e-15
    assert difference(Sampling(top_k=3, top_p=0.5).distribution(logits), [4 / 7, 3 / 7, 0, 0]) < 1e-15


@given(
    st.lists(st.sampled_from([-1e4, -30.0, -1.0, 0.0, 0.0, 2.0, 50.0, 800.0]), min_size=1, max_size=12),
    st.sampled_from([0.0, 1e-3, 0.8, 1.0, 100.0]),
    st.integers(0, 14),
    st.sampled_from([1e-6, 0.3, 0.9, 1.0]),
)
def test_what_remains_is_always_a_distribution_of_the_likeliest(logits, temperature, top_k, top_p):
    p = array(Sampling(temperature, top_k, top_p).distribution(mg.tensor(logits)))
    assert (p >= 0).all()
    assert abs(p.sum() - 1) < 1e-12
    assert (p > 0).sum() <= (top_k or len(logits))
    assert p[np.argmax(logits)] > 0
    order = np.argsort(-np.array(logits), kind="stable")
    assert (np.diff(p[order]) <= 1e-15).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(({"temperature": value}, "temperature") for value in (-0.1, math.inf, math.nan)),
        ({"top_k": -1}, "top_k"),
        *(({"top_p": value}, "top_p") for value in (0.0, -0.5, 1.01, math.nan)),
    ],
)
def test_sampling_options_that_mean_nothing_are_refused(options, message):
    (value,) = options.values()
    with pytest.raises(ValueError, match=rf"{message} must be .*, not {value}$"):
        Sampling(**options)
    with pytest.raises(ValueError, match=rf"{message} must be .*, not {value}$"):
        list(generate(make_model(), LETTERS, "a", **options))


@pytest.mark.parametrize("temperature", [0, 0.8])
def test_a_model_whose_logits_are_no_numbers_is_refused(temperature):
    model = make_model()
    with mg.no_grad():
        model.blocks[1].norm_ffn.bias[0] = math.nan
    with pytest.raises(ValueError, match="no finite logits"):
        list(generate(model, LETTERS, "ab", temperature=temperature))
    for logits in ([0.0, math.nan], [math.inf, 1.0], [-math.inf, -math.inf]):
        with pytest.raises(ValueError, match="no finite logits"):
            Sampling(temperature).draw(mg.tensor(logits))
    assert Sampling(temperature).draw(mg.tensor([-math.inf, 1.0])) == 1
