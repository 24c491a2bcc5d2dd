"""Claims 29 to 32: learning."""

import math
from itertools import pairwise

import numpy as np
import pytest
from models import array, close, differences_of_loss, draw_ids, same, untrained_model

import minigrad as mg
from minigrad import optim
from minigrad.nn import functional as F
from transformer import Config, Recipe, Trainer, Transformer
from transformer.training import training_steps


def test_29_the_loss_measures_how_wrong_the_guess_was(double):
    """A uniform guess costs ln V, a certain and right one nothing, a certain and wrong one very much."""
    targets = mg.tensor([4, 0, 2])
    assert F.cross_entropy(mg.zeros(3, 10), targets).item() == pytest.approx(math.log(10), rel=1e-15)
    certain = 800.0 * F.one_hot(targets, 10).double()
    assert F.cross_entropy(certain, targets).item() == 0
    assert F.cross_entropy(certain, mg.tensor([5, 1, 3])).item() == 800
    extreme = mg.where(mg.randn(3, 10) > 0, 800.0, -800.0)
    assert F.cross_entropy(extreme, targets).isfinite()
    losses = [F.cross_entropy(mg.tensor([[x, 0.0, 0.0]]), mg.tensor([0])).item() for x in range(-3, 4)]
    assert all(a > b for a, b in pairwise(losses))


def test_29_logits_of_800_are_finite_in_float32_too():
    """Logits of ±800, whose exponentials no float holds, have a finite loss and a finite gradient."""
    logits = mg.tensor([[800.0, -800.0, 0.0], [-800.0, 800.0, 800.0]], requires_grad=True)
    loss = F.cross_entropy(logits, mg.tensor([1, 2]))
    assert loss.item() == pytest.approx((1600 + math.log(2)) / 2, rel=1e-6)
    loss.backward()
    close(logits.grad, [[0.5, -0.5, 0], [0, 0.25, -0.25]], 1e-5)


def test_29_label_smoothing_has_a_floor(double, rng):
    """With a tenth of the target spread over all tokens, no guess costs less than −Σ q log q."""
    q = np.full(7, 0.1 / 7)
    q[3] += 0.9
    floor = -(q * np.log(q)).sum()
    best = mg.tensor(np.log(q)[None], requires_grad=True)
    loss = F.cross_entropy(best, mg.tensor([3]), label_smoothing=0.1)
    assert loss.item() == pytest.approx(floor, rel=1e-14)
    loss.backward()
    assert np.abs(array(best.grad)).max() < 1e-15
    for _ in range(50):
        guess = mg.tensor(np.log(q)[None] + rng.standard_normal((1, 7)))
        assert F.cross_entropy(guess, mg.tensor([3]), label_smoothing=0.1).item() > floor


def test_29_the_model_smooths_its_labels_so(double, rng):
    """The model's own smoothed loss is −Σ q log p of its distributions."""
    model = untrained_model(stir=0.3)
    ids, targets = draw_ids(rng, 2, 5), draw_ids(rng, 2, 5)
    log_p = array(model(ids).log_softmax(-1))
    q = 0.9 * np.eye(11)[targets.numpy()] + 0.1 / 11
    expected = -(q * log_p).sum(-1).mean()
    assert model.loss(ids, targets, label_smoothing=0.1).item() == pytest.approx(expected, rel=1e-13)


def test_30_backpropagation_gives_each_weight_its_share(double, rng):
    """For every weight there is, the gradient is how much the loss changes when that weight alone does."""
    model = untrained_model(seed=4, vocab_size=7, d_model=8, d_ff=16, context=5, stir=0.3)
    ids, targets = draw_ids(rng, 1, 5, vocab_size=7), draw_ids(rng, 1, 5, vocab_size=7)
    parameters = dict(model.named_parameters())
    assert len(parameters) == 1 + 2 * 12
    gradients = mg.autograd.grad(model.loss(ids, targets), list(parameters.values()))
    for (name, parameter), gradient in zip(parameters.items(), gradients, strict=True):
        expected = differences_of_loss(model, parameter, ids, targets)
        assert np.abs(array(gradient)).max() > 1e-4, name
        assert np.abs(array(gradient) - expected).max() < 1e-7 * np.abs(expected).max(), name


def test_31_a_small_step_makes_the_right_token_likelier(rng):
    """One step of gradient descent lowers the loss and raises the probability of the token that came."""
    ids, targets = draw_ids(rng, 1, 8), draw_ids(rng, 1, 8)

    def after_a_step(lr):
        model = untrained_model(stir=0.3)
        optimizer = optim.SGD(model.parameters(), lr=lr)
        loss = F.cross_entropy(model(ids)[:, -1], targets[:, -1])
        before = math.exp(-loss.item())
        loss.backward()
        optimizer.step()
        later = F.cross_entropy(model(ids)[:, -1], targets[:, -1])
        p = model(ids)[0, -1].softmax(-1)[targets[0, -1].item()].item()
        return loss.item(), later.item(), before, p

    loss, later, before, p = after_a_step(0.01)
    assert later < loss
    assert p > before
    *_, much_before, still = after_a_step(0.0)
    assert still == pytest.approx(much_before, rel=1e-6)


def test_31_a_step_lowers_the_loss_of_a_whole_batch(rng):
    """So it does for many tokens together, on average."""
    model = untrained_model(stir=0.3)
    ids, targets = draw_ids(rng, 4, 12), draw_ids(rng, 4, 12)
    trainer = Trainer(model, optim.SGD(model.parameters(), lr=0.01), clip_norm=None)
    losses = [trainer.step(ids, targets) for _ in range(5)]
    assert all(a > b for a, b in pairwise(losses))


def short_run(seed, threads=1, dropout=0.0):
    """Train from a seed for a few steps; return the losses and every weight."""
    ids = mg.tensor(np.random.default_rng(0).integers(0, 11, 400))
    recipe = Recipe(steps=6, batch_size=4, learning_rate=1e-2, warmup_steps=2, threads=threads)
    with mg.fork_rng(seed):
        model = Transformer(Config(vocab_size=11, n_layers=2, n_heads=2, d_model=16, context=12, dropout=dropout))
        losses = [progress.loss for progress in training_steps(model, ids, recipe)]
    return losses, model.state_dict()


@pytest.mark.parametrize(("threads", "dropout"), [(1, 0.0), (2, 0.1)])
def test_32_one_seed_is_one_model(threads, dropout):
    """All weights start out random: another seed is another model, and the same seed the same, to the bit."""
    losses, weights = short_run(1, threads, dropout)
    again, same_weights = short_run(1, threads, dropout)
    assert losses == again
    assert all(same(weights[name], same_weights[name]) for name in weights)
    other, other_weights = short_run(2, threads, dropout)
    assert losses != other
    assert not any(same(weights[name], other_weights[name]) for name in weights)


def test_32_the_matrices_start_random_and_training_moves_them_all():
    """Before training, every matrix is random numbers; after it, none is as it was."""
    with mg.fork_rng(1):
        start = untrained_model(seed=1).state_dict()
    assert all(array(value).std() > 0.01 for value in start.values() if value.ndim > 1)
    _, trained_weights = short_run(1)
    with mg.fork_rng(1):
        begin = Transformer(Config(vocab_size=11, n_layers=2, n_heads=2, d_model=16, context=12)).state_dict()
    assert not any(same(begin[name], trained_weights[name]) for name in begin)


def test_32_repetition_makes_a_model_that_beats_counting(trained):
    """What training makes predicts unseen text better than every n-gram table of the same training text."""
    model, parts, losses = trained
    score = parts.score(model)
    baselines = parts.baselines()
    assert len(baselines) == 7
    assert score.nats_per_character < min(baseline.nats_per_character for baseline in baselines) - 0.2
    assert score.characters == len(parts.held_out)
    assert losses[0] > np.mean(losses[-50:]) + 0.4
