"""How far a loss can be trusted, what it is compared with, and how it depends on the position."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from models import VOCABULARY, array, draw_ids, make_config, make_model

import minigrad as mg
from minigrad import nn
from transformer import Config, Transformer
from transformer.__main__ import main as command_line
from transformer.baselines import ngram_baselines
from transformer.commands.evaluate import longest_window, position_ranges
from transformer.corpus import Corpus
from transformer.evaluation import N_PARTS, Score, parts_of, position_losses, standard_error, token_losses
from transformer.text import Text, make_tokenizer
from transformer.tokenizer import BPETokenizer, CharTokenizer

TEXT = "the cat sat on the mat. the dog sat on the log, for caf\u00e9s are far. " * 60


# --- the standard error -----------------------------------------------------------------------------


def correlated(rng: np.random.Generator, n: int, memory: float) -> np.ndarray:
    """A sequence of losses of which each remembers its predecessor, with mean 2 and standard deviation 1."""
    noise = rng.standard_normal(n) * math.sqrt(1 - memory**2)
    noise[0] = rng.standard_normal()
    for i in range(1, n):
        noise[i] += memory * noise[i - 1]
    return 2 + noise


def test_the_standard_error_is_the_spread_of_means_over_many_texts(rng: np.random.Generator) -> None:
    """Of losses that go together over some 20 tokens, each text's error predicts how its mean scatters.

    The formula for independent tokens would promise it several times smaller.
    """
    means, errors, naive = [], [], []
    for _ in range(150):
        losses = correlated(rng, 8000, memory=0.95)
        parts = parts_of(len(losses))
        errors.append(standard_error([losses[p].sum() for p in parts], [p.stop - p.start for p in parts]))
        means.append(losses.mean())
        naive.append(losses.std() / math.sqrt(len(losses)))
    assert np.mean(errors) == pytest.approx(np.std(means), rel=0.2)
    assert np.std(errors) / np.mean(errors) == pytest.approx(1 / 8, rel=0.3)
    assert np.std(means) > 4 * np.mean(naive)


def test_the_standard_error_of_independent_losses_is_the_usual_one(rng: np.random.Generator) -> None:
    values = rng.standard_normal(N_PARTS)
    assert standard_error(values.tolist(), [1] * N_PARTS) == pytest.approx(values.std(ddof=1) / math.sqrt(N_PARTS))


def test_parts_of_different_size_but_equal_mean_have_no_error() -> None:
    assert standard_error([2.0, 4.0, 6.0], [10, 20, 30]) == pytest.approx(0, abs=1e-12)
    assert math.isnan(standard_error([2.0], [10]))
    assert math.isnan(standard_error([], []))


@given(st.integers(0, 5000), st.integers(1, 300))
def test_parts_are_consecutive_and_long_enough(n: int, least: int) -> None:
    parts = parts_of(n, least)
    assert [i for part in parts for i in range(n)[part]] == list(range(n))
    assert len(parts) <= N_PARTS
    assert len(parts) == 1 or min(part.stop - part.start for part in parts) >= least


def test_a_difference_is_known_better_than_the_losses() -> None:
    own = Score(30.0, 10, 10, [10.0, 15.0, 5.0], [4, 4, 2])
    other = [12.1, 17.0, 5.9]  # half a nat more for each character, or nearly so
    difference, error = own.difference_to(other)
    assert difference == pytest.approx(0.5)
    assert error < own.standard_error / 20


# --- texts ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bpe_parts() -> Text:
    return Text.encode(TEXT * 4, make_tokenizer(TEXT, "bpe", 262), 8)


def tiny(vocab_size: int) -> Transformer:
    mg.manual_seed(3)
    return Transformer(Config(vocab_size, n_layers=1, n_heads=2, d_model=8, context=8))


@pytest.mark.parametrize("limit", [None, 700, 20])
def test_model_and_baselines_are_measured_on_the_same_parts(bpe_parts: Text, limit: int | None) -> None:
    score = bpe_parts.score(tiny(bpe_parts.tokenizer.vocab_size), limit)
    baselines = bpe_parts.baselines(limit)
    measured = str(bpe_parts.measured(limit))
    assert (score.characters, score.bytes) == (len(measured), len(measured.encode()))
    assert sum(score.characters_of_parts) == len(measured)
    assert math.fsum(score.nats_of_parts) == pytest.approx(score.nats, rel=1e-12)
    assert len(score.nats_of_parts) == (1 if limit == 20 else 2 if limit == 700 else 4)
    assert math.isnan(score.standard_error) == (limit == 20)
    plain = ngram_baselines(str(bpe_parts.train), measured, vocab_size=len(set(TEXT)))
    for baseline, expected in zip(baselines, plain, strict=True):
        assert baseline.nats_per_character == pytest.approx(expected.nats_per_character, rel=1e-12)
        assert math.fsum(baseline.nats_of_parts) == pytest.approx(expected.nats_per_character * len(measured))
        more, _ = score.difference_to(baseline.nats_of_parts)
        assert more == pytest.approx(baseline.nats_per_character - score.nats_per_character, abs=1e-12)


def test_the_parts_of_a_text_with_long_characters_add_up() -> None:
    """A border between parts may cut a character of several tokens in two."""
    text = "\u6771\u4eac\U0001f642" * 4000
    parts = Text.encode(text, BPETokenizer(), 8)
    assert len(parts.characters_of_parts()) > 3
    assert sum(parts.characters_of_parts()) == len(parts.held_out)


def test_another_text_is_read_from_a_fresh_start() -> None:
    tokenizer = CharTokenizer.train(TEXT + "\n")
    model = tiny(tokenizer.vocab_size)
    train, other = Corpus(TEXT), Corpus("the far cat")
    parts = Text.of_its_own(other, tokenizer, train)
    ids = mg.tensor(tokenizer.encode("\n" + str(other)))
    assert parts.score(model).nats == pytest.approx(token_losses(model, ids, len(other)).sum().item())
    expected = ngram_baselines(TEXT, str(other), vocab_size=len(set(TEXT)), context="")
    assert [b.nats_per_character for b in parts.baselines()] == [b.nats_per_character for b in expected]


# --- positions --------------------------------------------------------------------------------------


@given(st.integers(1, 200), st.integers(1, 5))
def test_ranges_of_positions_cover_all_and_end_at_the_context(context: int, factor: int) -> None:
    ranges = position_ranges(context, context * factor)
    assert [p for first, last in ranges for p in range(first, last + 1)] == list(range(1, context * factor + 1))
    assert context in {last for _, last in ranges}


def test_the_loss_is_shown_as_far_as_model_and_text_go() -> None:
    sinusoidal = Config(5, context=16)
    assert [longest_window(sinusoidal, n) for n in (16, 17, 33, 49, 65, 10**6)] == [0, 16, 32, 48, 64, 64]
    learned = Config(5, context=16, positions="learned")
    assert [longest_window(learned, n) for n in (16, 17, 10**6)] == [0, 16, 16]


# --- the command ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a text and two short runs on it: `sinusoidal` and `learned`."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "text.txt").write_text(TEXT * 4, encoding="utf-8")
    for positions in ("sinusoidal", "learned"):
        options = ["--preset", "micro", "--steps", "3", "--threads", "1", "--positions", positions]
        assert (
            command_line(["train", "--text", str(folder / "text.txt"), "--out", str(folder / positions), *options])
            == 0
        )
    return folder


def test_evaluate_reports_the_loss_with_its_error_and_by_position(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line(["evaluate", "--out", str(folder / "sinusoidal")]) == 0
    printed = capsys.readouterr().out
    assert re.search(
        r"^this model +\d\.\d{3} +\d\.\d{3} +\d\.\d{3}  ± \d\.\d{3} \(standard error\)$", printed, re.M
    )
    assert re.search(r"^5-gram .*  -\d\.\d{3} ± \d\.\d{3} from this model$", printed, re.M)
    before, after = printed.split("--- trained up to here: the context of 16 ---")
    assert re.search(r"^ +9-16 +\d\.\d{3} ± \d\.\d{3} #+$", before, re.M)
    assert re.search(r"^ +33-64 +\d\.\d{3} ± \d\.\d{3} #+$", after, re.M)


def test_evaluate_of_learned_positions_ends_at_the_context(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line(["evaluate", "--out", str(folder / "learned")]) == 0
    printed = capsys.readouterr().out
    assert "9-16" in printed
    assert "trained up to here" not in printed


def test_evaluate_measures_as_many_tokens_as_asked_for(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(folder / "sinusoidal")
    assert command_line(["evaluate", "--out", run, "--tokens", "300"]) == 0
    assert "the first 300 tokens of the held-out text of" in capsys.readouterr().out
    assert command_line(["evaluate", "--out", run, "--tokens", "0"]) == 0
    assert "text   the held-out text of" in capsys.readouterr().out
    assert command_line(["evaluate", "--out", run, "--tokens", "-1"]) == 2
    assert "--tokens must be at least 0 (0: all), not -1" in capsys.readouterr().err


def test_evaluate_of_a_short_file_shows_what_can_be_known(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "short.txt").write_text("the cat", encoding="utf-8")
    assert (
        command_line(["evaluate", "--out", str(folder / "sinusoidal"), "--text", str(tmp_path / "short.txt")]) == 0
    )
    printed = capsys.readouterr().out
    assert "7 characters" in printed
    assert "±" not in printed
    assert "by the number" not in printed


def test_evaluate_of_another_text_does_without_the_one_learned_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, other, out = tmp_path / "text.txt", tmp_path / "other.txt", tmp_path / "out"
    text.write_text(TEXT, encoding="utf-8")
    other.write_text("the far cat sat on the log. " * 30, encoding="utf-8")
    options = ["--preset", "micro", "--steps", "2", "--threads", "1"]
    assert command_line(["train", "--text", str(text), "--out", str(out), *options]) == 0
    assert command_line(["evaluate", "--out", str(out), "--text", str(other)]) == 0
    assert "5-gram" in capsys.readouterr().out
    text.unlink()
    assert command_line(["evaluate", "--out", str(out), "--text", str(other)]) == 0
    printed, complaint = capsys.readouterr()
    assert "this model" in printed
    assert "5-gram" not in printed
    assert "no n-gram models to compare with" in complaint
    assert command_line(["evaluate", "--out", str(out)]) == 2


# --- the score of a text ----------------------------------------------------------------------------


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
