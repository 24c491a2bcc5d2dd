"""The n-gram models: proper distributions, equal to the formula computed naively, and known figures."""

import math
from pydoc_data.topics import topics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer.baselines import NGramModel, ngram_baselines
from transformer.data import default_corpus, split_text

ALPHABET = "abcde"
some_text = st.text(st.sampled_from(ALPHABET), max_size=60)


def witten_bell(train: str, context: str, character: str, vocab_size: int) -> float:
    """The formula as written, counted anew for each call; the context must be cut to the order already."""
    followers = [
        train[start + len(context)]
        for start in range(len(train) - len(context))
        if train[start : start + len(context)] == context
    ]
    below = witten_bell(train, context[1:], character, vocab_size) if context else 1 / vocab_size
    if not followers:
        return below
    distinct = len(set(followers))
    return (followers.count(character) + distinct * below) / (len(followers) + distinct)


@given(some_text, st.text(st.sampled_from(ALPHABET + "?"), max_size=8), st.integers(1, 6))
def test_probabilities_sum_to_one(train: str, context: str, order: int) -> None:
    model = NGramModel.train(train, order, vocab_size=len(ALPHABET))
    probabilities = [model.probability(character, context) for character in ALPHABET]
    assert math.fsum(probabilities) == pytest.approx(1, abs=1e-12)
    assert min(probabilities) > 0


@given(some_text, some_text, st.sampled_from(ALPHABET), st.integers(1, 5))
def test_probability_is_the_formula(train: str, context: str, character: str, order: int) -> None:
    model = NGramModel.train(train, order, vocab_size=7)
    recent = context[len(context) - order + 1 :] if len(context) >= order else context
    expected = witten_bell(train, recent, character, vocab_size=7)
    assert model.probability(character, context) == pytest.approx(expected, rel=1e-12)


@given(some_text, st.text(st.sampled_from(ALPHABET), min_size=1, max_size=12), some_text, st.integers(1, 4))
def test_cross_entropy_is_the_mean_over_the_characters(train: str, text: str, context: str, order: int) -> None:
    model = NGramModel.train(train, order, vocab_size=5)
    read = context + text
    expected = [
        -math.log(model.probability(read[position], read[:position]))
        for position in range(len(context), len(read))
    ]
    assert model.cross_entropy(text, context) == pytest.approx(math.fsum(expected) / len(text))


@given(some_text, st.text(st.sampled_from(ALPHABET), min_size=1, max_size=12))
def test_all_orders_at_once_equal_each_alone(train: str, text: str) -> None:
    together = NGramModel.train(train, 4, vocab_size=5).cross_entropies(text)
    alone = [NGramModel.train(train, order, vocab_size=5).cross_entropy(text) for order in range(1, 5)]
    assert together == pytest.approx([math.log(5), *alone], rel=1e-12)


def test_a_worked_example() -> None:
    # "abab": P(a) = P(b) = (2 + 2 · 1/2) / (4 + 2) = 1/2; after "a" only "b" was seen, twice
    model = NGramModel.train("abab", order=2, vocab_size=2)
    assert model.probability("b", "a") == pytest.approx((2 + 1 * 0.5) / (2 + 1))
    assert model.probability("a", "a") == pytest.approx((0 + 1 * 0.5) / (2 + 1))
    assert model.probability("a", "?") == pytest.approx(0.5)


def test_without_a_training_text_everything_is_equally_likely() -> None:
    assert NGramModel.train("", 3, vocab_size=4).cross_entropy("ab") == pytest.approx(math.log(4))


def test_impossible_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="order of an n-gram model must be at least 1, not 0"):
        NGramModel.train("ab", 0, vocab_size=2)
    with pytest.raises(ValueError, match="order of an n-gram model must be at least 1, not 0"):
        ngram_baselines("ab", "ab", orders=[0, 2])
    with pytest.raises(ValueError, match="vocab_size must be at least 1, not 0"):
        NGramModel.train("", 1, vocab_size=0)
    with pytest.raises(ValueError, match="vocab_size is 2, but the training text has 3 different"):
        NGramModel.train("abc", 1, vocab_size=2)
    with pytest.raises(ValueError, match="no characters at all"):
        NGramModel.train("abc", 1, vocab_size=3).cross_entropy("")


def test_baselines_are_the_wanted_orders_after_the_uniform_one() -> None:
    train, held_out = "the cat sat on the mat. " * 5, "the cat!"
    baselines = ngram_baselines(train, held_out, orders=[4, 2])
    assert [(baseline.name, baseline.order) for baseline in baselines] == [
        ("uniform", 0),
        ("2-gram", 2),
        ("4-gram", 4),
    ]
    assert baselines[0].nats_per_character == math.log(len(set(train + held_out)))
    for baseline in baselines[1:]:
        model = NGramModel.train(train, baseline.order, len(set(train + held_out)))
        assert baseline.nats_per_character == pytest.approx(model.cross_entropy(held_out, context=train))


# Of CPython 3.11.7; other versions have other topics, whose figures are not known here.
KNOWN_TOPICS = {"count": 79, "characters": 464_970}
topics_here = {"count": len(topics), "characters": sum(map(len, topics.values()))}


@pytest.mark.skipif(topics_here != KNOWN_TOPICS, reason=f"this Python's help topics are others: {topics_here}")
@pytest.mark.parametrize(
    ("characters", "figures"),
    [
        (40_000, [4.635, 3.236, 2.289, 1.700, 1.425, 1.362, 1.399]),
        (None, [4.635, 3.238, 2.318, 1.712, 1.404, 1.320, 1.339]),
    ],
    ids=["the first 40,000 held-out characters", "all held-out characters"],
)
def test_known_figures(characters: int | None, figures: list[float]) -> None:
    corpus = default_corpus()
    assert len(corpus) == 465_126
    train, held_out = split_text(corpus)
    baselines = ngram_baselines(train, held_out[:characters], vocab_size=len(set(corpus)))
    assert [round(baseline.nats_per_character, 3) for baseline in baselines] == figures
