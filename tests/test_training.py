"""Training: a step on any number of threads, and what the steps of a whole run report."""

import itertools
import math

import pytest
from models import array, difference, draw_ids, make_model, same

import minigrad as mg
from minigrad import optim
from transformer import Recipe, Trainer
from transformer.training import NonFiniteLoss, training_steps

pytestmark = pytest.mark.usefixtures("share_out_small_batches")


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
