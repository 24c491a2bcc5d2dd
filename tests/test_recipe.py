"""Presets, the paper's recipe, the dial, gradient parts, and what a step needs of memory."""

import dataclasses
import math

import numpy as np
import pytest
from measured import PeakMemory
from models import VOCABULARY, array, difference, make_model

import minigrad as mg
from minigrad import memory as system
from minigrad import optim
from transformer import Config, Recipe, Trainer, Transformer
from transformer.__main__ import main
from transformer.footprint import Memory, check_memory, n_parameters, step_memory
from transformer.presets import PRESETS, of_depth
from transformer.recipe import make_optimizer
from transformer.training import training_steps


def make_trainer(config, recipe):
    mg.manual_seed(1)
    model = Transformer(config)
    model.train()
    clip = recipe.clip_norm or math.inf
    optimizer = make_optimizer(model, recipe)
    return Trainer(model, optimizer, recipe.threads, clip, recipe.label_smoothing, recipe.sequences_at_once)


def draw_batch(config, recipe):
    ids = mg.randint(config.vocab_size, (recipe.batch_size, config.context + 1))
    return ids[:, :-1], ids[:, 1:]


# --- the paper's recipe -----------------------------------------------------------------------------


def test_the_papers_model_has_37_85_million_parameters():
    config = Config.preset("paper", vocab_size=37_000)
    assert n_parameters(config) == 37_846_016
    assert round(n_parameters(config) / 1e6, 2) == 37.85


@pytest.mark.parametrize(
    ("step", "rate"), [(1, 1.75e-7), (4000, 6.99e-4), (100_000, 1.40e-4)], ids=["first", "peak", "last"]
)
def test_the_papers_rates(step, rate):
    recipe = Recipe.preset("paper")
    assert recipe.steps == 100_000
    found = recipe.learning_rate * recipe.rate(step - 1)
    assert found == pytest.approx(rate, rel=3e-3)
    assert found == pytest.approx(512**-0.5 * min(step**-0.5, step * 4000**-1.5), rel=1e-12)


def test_the_papers_rate_follows_the_width_and_the_warm_up_unless_it_is_given():
    law = lambda d, warmup: d**-0.5 * warmup**-0.5
    assert Recipe.preset("paper", 256).learning_rate == pytest.approx(law(256, 4000))
    assert Recipe.preset("paper", warmup_steps=100).learning_rate == pytest.approx(law(512, 100))
    assert Recipe.preset("paper", 256, learning_rate=0.25).learning_rate == 0.25
    assert Recipe.preset("small", schedule="inverse_sqrt").learning_rate == pytest.approx(law(128, 50))
    assert Recipe.preset("small", 64, schedule="cosine").learning_rate == Recipe().learning_rate


def test_the_papers_optimizer_is_adam_without_decay():
    recipe = Recipe.preset("paper")
    assert (recipe.label_smoothing, recipe.clip_norm, recipe.weight_decay) == (0.1, 0, 0)
    optimizer = make_optimizer(Transformer(Config.preset("micro", vocab_size=VOCABULARY)), recipe)
    assert type(optimizer) is optim.Adam
    for group in optimizer.param_groups:
        assert (tuple(group["betas"]), group["eps"], group["weight_decay"]) == ((0.9, 0.98), 1e-9, 0)


def test_the_paper_drops_sublayer_outputs_and_the_embedding_sum_but_no_attention_weights(monkeypatch):
    """Each place where something is dropped is recorded; in evaluation nothing is."""
    model = Transformer(Config.preset("paper", vocab_size=VOCABULARY, d_model=16, d_ff=32))
    dropped = []
    forward = mg.nn.Dropout.forward
    monkeypatch.setattr(
        mg.nn.Dropout,
        "forward",
        lambda self, x: dropped.append((self.p, x.shape)) or forward(self, x),
    )
    ids = mg.randint(VOCABULARY, (2, 5))
    model.train()
    assert mg.allclose(model.blocks[0].attention(mg.ones(2, 5, 16)), model.blocks[0].attention(mg.ones(2, 5, 16)))
    assert not dropped
    once, again = model(ids), model(ids)
    assert dropped == [(0.1, (2, 5, 16))] * (2 * (1 + 2 * 6))
    assert not mg.allclose(once, again)
    model.eval()
    assert mg.equal(model(ids), model(ids))


@pytest.mark.slow
def test_a_step_of_the_papers_model_fits_into_the_memory_that_was_stated():
    """Two real steps at full width, depth and vocabulary, in two parts: the peak of all arrays is as was said."""
    config = Config.preset("paper", vocab_size=37_000, context=32)
    recipe = Recipe.preset("paper", batch_size=2, sequences_at_once=1, threads=1)
    with PeakMemory() as memory:
        trainer = make_trainer(config, recipe)
        losses = [trainer.step(*draw_batch(config, recipe)) for _ in range(2)]
    assert trainer.model.n_parameters() == n_parameters(config)
    assert losses[0] == pytest.approx(math.log(37_000), abs=0.3)
    assert 0.97 * memory.peak < step_memory(config, recipe) < 1.07 * memory.peak


# --- presets and the dial ---------------------------------------------------------------------------


def test_presets_name_only_fields_that_exist():
    for preset in (*PRESETS.values(), of_depth(3)):
        assert {*preset.model} <= {field.name for field in dataclasses.fields(Config)}
        assert {*preset.training} <= {field.name for field in dataclasses.fields(Recipe)}


def test_overrides_of_a_recipe_replace_single_fields():
    paper = Recipe.preset("paper")
    assert Recipe.preset("paper", steps=7, clip_norm=2.0) == dataclasses.replace(paper, steps=7, clip_norm=2.0)
    assert Recipe.preset("small") == Recipe()


def test_the_dial_at_4_is_the_default():
    assert Config.preset(4, vocab_size=65) == Config(vocab_size=65)
    assert Recipe.preset(4) == Recipe()


def test_the_dial_is_monotone():
    configs = [Config.preset(depth, vocab_size=65) for depth in range(1, 9)]
    recipes = [Recipe.preset(depth) for depth in range(1, 9)]
    for name in ("n_layers", "n_heads", "d_model", "d_ff", "context"):
        sizes = [getattr(config, name) for config in configs]
        assert sizes == sorted(set(sizes)), name
    assert [n_parameters(c) for c in configs] == sorted({n_parameters(c) for c in configs})
    assert [r.steps for r in recipes] == sorted({r.steps for r in recipes})
    for name in ("matrix_rate", "learning_rate", "batch_size"):
        falling = [getattr(recipe, name) for recipe in recipes]
        assert falling == sorted(falling, reverse=True), name
    tokens = [recipe.batch_size * config.context for recipe, config in zip(recipes, configs, strict=True)]
    assert all(896 <= n <= 1024 for n in tokens)


@pytest.mark.parametrize("kind", [Config, Recipe])
@pytest.mark.parametrize(("key", "reason"), [("huge", "no preset 'huge'"), (0, "depth must be at least 1, not 0")])
def test_an_unknown_preset_is_refused(kind, key, reason):
    with pytest.raises(ValueError, match=reason):
        kind.preset(key, vocab_size=65) if kind is Config else kind.preset(key)


def test_the_command_line_takes_a_preset_or_a_depth_and_any_single_option(tmp_path, capsys):
    text = tmp_path / "text.txt"
    text.write_text("the cat sat on the mat and the dog sat on the log. " * 30, encoding="utf-8")
    common = ["train", "--text", str(text), "--steps", "2", "--threads", "1"]
    assert main([*common, "--depth", "2", "--batch-size", "3", "--out", str(tmp_path / "deep")]) == 0
    shown = capsys.readouterr().out
    assert "2 layers, 2 heads, d_model 64, d_ff 256, context 64" in shown
    assert "2 steps of 3 x 64 tokens, Muon at 0.04 and AdamW at 0.005" in shown
    small = ["--d-model", "16", "--n-layers", "1", "--d-ff", "8", "--context", "8", "--batch-size", "2"]
    assert main([*common, "--preset", "paper", *small, "--out", str(tmp_path / "paper")]) == 0
    shown = capsys.readouterr().out
    assert f"Adam at {(16 * 4000) ** -0.5:g}," in shown
    assert "a step needs about" in shown
    with pytest.raises(SystemExit) as ended:
        main([*common, "--depth", "2", "--preset", "paper"])
    assert ended.value.code == 2
    assert main([*common, "--depth", "0"]) == 2
    assert "depth must be at least 1" in capsys.readouterr().err


# --- schedules --------------------------------------------------------------------------------------


def test_the_schedules_after_the_warm_up():
    linear, constant = (Recipe(steps=10, warmup_steps=4, schedule=name) for name in ("linear", "constant"))
    assert [linear.rate(step) for step in range(11)] == pytest.approx(
        [0.2, 0.4, 0.6, 0.8, 1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6, 0]
    )
    assert [constant.rate(step) for step in (0, 3, 4, 9, 99)] == pytest.approx([0.2, 0.8, 1, 1, 1])
    inverse = Recipe(warmup_steps=4, schedule="inverse_sqrt")
    assert [inverse.rate(step) for step in (0, 1, 3, 15)] == pytest.approx([0.25, 0.5, 1, 0.5])
    assert Recipe(warmup_steps=0, schedule="inverse_sqrt").rate(0) == 1


def test_an_unknown_schedule_is_answered_with_the_known_ones():
    with pytest.raises(
        ValueError, match="schedule must be one of linear, cosine, inverse_sqrt, constant, not 'x'"
    ):
        Recipe(schedule="x")


# --- a batch in parts -------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("at_once", [1, 2, 3, 7])
def test_a_batch_in_parts_has_the_gradients_of_the_whole(threads, at_once, monkeypatch):
    monkeypatch.setattr(Trainer, "tokens_per_thread", 1)
    mg.set_default_dtype(mg.float64)
    config = Config.preset("micro", vocab_size=VOCABULARY)
    whole = make_trainer(config, Recipe(batch_size=7, threads=1))
    batch = draw_batch(config, Recipe(batch_size=7))
    parts = make_trainer(config, Recipe(batch_size=7, threads=threads, sequences_at_once=at_once))
    loss, gradients = whole.differentiate(*batch)
    part_loss, part_gradients = parts.differentiate(*batch)
    assert part_loss == pytest.approx(loss, rel=1e-12)
    for a, b in zip(gradients, part_gradients, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9, atol=1e-14)


def test_without_clipping_the_norm_is_still_reported(rng):
    ids = mg.tensor(rng.integers(0, VOCABULARY, 200))
    norms = {}
    for clip in (0.0, 1e-3):
        mg.manual_seed(3)
        model = Transformer(Config.preset("micro", vocab_size=VOCABULARY))
        recipe = Recipe(steps=1, batch_size=2, clip_norm=clip, threads=1)
        (report,) = training_steps(model, ids, recipe)
        norms[clip] = report.gradient_norm, sum((p.grad**2).sum().item() for p in model.parameters()) ** 0.5
    assert norms[0.0][1] == pytest.approx(norms[0.0][0], rel=1e-5)
    assert norms[1e-3][0] == norms[0.0][0]
    assert norms[1e-3][1] == pytest.approx(1e-3, rel=1e-2)


# --- memory -----------------------------------------------------------------------------------------


SIZE = {"vocab_size": 200, "n_layers": 2, "n_heads": 4, "d_model": 64, "context": 64}


@pytest.mark.parametrize(
    ("model", "training"),
    [
        ({}, {}),
        ({}, {"optimizer": "adamw"}),
        ({"n_layers": 4}, {}),
        ({"dropout": 0.1}, {}),
        ({"d_ff": 512}, {}),
        ({"norm": "pre"}, {}),
        ({"activation": "gelu"}, {}),
        ({"bias": True, "tie_weights": False, "positions": "learned"}, {}),
        ({"vocab_size": 2000}, {}),
        ({"vocab_size": 10_000}, {"batch_size": 2, "sequences_at_once": 1}),
        ({}, {"sequences_at_once": 4}),
    ],
    ids=str,
)
def test_the_memory_of_a_step_is_known_before_it(model, training):
    config = Config(**{**SIZE, **model})
    recipe = Recipe(**{"batch_size": 16, "threads": 1, **training})
    with PeakMemory() as memory:
        trainer = make_trainer(config, recipe)
        for _ in range(2):
            trainer.step(*draw_batch(config, recipe))
    assert 0.97 * memory.peak < step_memory(config, recipe) < 1.07 * memory.peak
    assert n_parameters(config) == trainer.model.n_parameters()


def test_threads_each_need_their_graph():
    config = Config(**SIZE)
    one = step_memory(config, Recipe(batch_size=16, sequences_at_once=4, threads=1))
    two = step_memory(config, Recipe(batch_size=16, sequences_at_once=4, threads=2))
    matrices = 2 * (4 * 64 * 64 + 2 * 64 * 256)
    fixed = 4 * (3 * n_parameters(config) - matrices)  # weights and what the optimizers remember
    assert two - fixed == 2 * (one - fixed)
    assert step_memory(config, Recipe(batch_size=1, threads=8)) == step_memory(
        config, Recipe(batch_size=1, threads=1)
    )


def test_what_does_not_fit_is_refused_or_warned_of():
    config, recipe = Config.preset("paper", vocab_size=37_000), Recipe.preset("paper")
    need = step_memory(config, recipe)
    assert check_memory(config, recipe, Memory(2 * need, need)) == "a step needs about 1.4 GB, 1.4 GB are free"
    assert check_memory(config, recipe, Memory()) == "a step needs about 1.4 GB"
    warning = check_memory(config, recipe, Memory(2 * need, need - 1))
    assert warning.startswith("a step needs about 1.4 GB, but only 1.4 GB are free")
    with pytest.raises(ValueError, match=r"needs about 1\.4 GB, but this machine has 1\.0 GB: lower sequences_at"):
        check_memory(config, recipe, Memory(10**9, 10**8))


def test_a_model_beyond_the_machine_is_refused_before_anything_is_made(tmp_path, capsys, monkeypatch):
    text = tmp_path / "text.txt"
    text.write_text("the cat sat on the mat. " * 50, encoding="utf-8")
    monkeypatch.setattr("transformer.footprint.machine_memory", lambda: Memory(10**6, 10**6))
    assert main(["train", "--text", str(text), "--context", "8", "--out", str(tmp_path / "run")]) == 2
    assert "but this machine has 1 MB: lower" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_the_machines_memory():
    memory = system.machine_memory()
    if memory.total is not None:
        assert memory.total > 10**8
        assert memory.free is None or 0 <= memory.free <= memory.total


def test_a_limit_of_the_container_counts(tmp_path, monkeypatch):
    """Control groups write "max" where there is no limit."""
    files = {"memory.max": "max\n", "memory.current": "30000000\n"}
    found = lambda: {name: system._number_after("", tmp_path / name) for name in files}
    for name, content in files.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    assert found() == {"memory.max": None, "memory.current": 30_000_000}
    assert system._number_after("", tmp_path / "absent") is None
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:    5 kB\n", encoding="utf-8")
    assert system._number_after("MemAvailable:", tmp_path / "meminfo") == 5


# --- rates and optimizers ---------------------------------------------------------------------------


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
