"""Checkpoints: what comes back, and what is refused, in one sentence and with bounded memory."""

import itertools
import math
import struct

import numpy as np
import pytest
from measured import PeakMemory
from models import OPTIONS, VOCABULARY, draw_ids, make_model, same

import minigrad as mg
from transformer import BPETokenizer, CharTokenizer, Config, Recipe, Trainer, load_checkpoint, save_checkpoint
from transformer.checkpoint import CheckpointError, NotFinite, find_checkpoint
from transformer.footprint import n_parameters
from transformer.recipe import make_optimizer

# Those options of the architecture on which it depends what a checkpoint holds.
STORED = {name: OPTIONS[name] for name in ("norm", "positions", "tie_weights", "bias")}
VARIANTS = [dict(zip(STORED, values, strict=True)) for values in itertools.product(*STORED.values())]


# --- what comes back ----------------------------------------------------------------------------------------


def tiny(path, **fields):
    """Save a tiny model; return it and its tokenizer."""
    tokenizer = CharTokenizer("abcdefghijk")
    model = make_model(n_layers=1, d_model=4, d_ff=4, **fields)
    save_checkpoint(path, model, tokenizer, {"step": 7, "source": None})
    return model, tokenizer


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_a_checkpoint_gives_the_same_model_again(variant, tmp_path, rng):
    model, tokenizer = tiny(tmp_path / "a.safetensors", **variant, dropout=0.1)
    checkpoint = load_checkpoint(tmp_path / "a.safetensors")
    assert checkpoint.config == model.config
    assert checkpoint.tokenizer.to_dict() == tokenizer.to_dict()
    assert checkpoint.training == {"step": 7, "source": None}
    assert not checkpoint.model.training
    loaded, saved = checkpoint.model.state_dict(), model.state_dict()
    assert [*loaded] == [*saved]
    assert all(same(loaded[name], saved[name]) for name in saved)
    ids = draw_ids(rng, 2, 6)
    assert same(checkpoint.model(ids), model.eval()(ids))
    assert (checkpoint.model.output.weight is checkpoint.model.embedding.token.weight) == variant["tie_weights"]
    assert all(parameter.requires_grad for parameter in checkpoint.model.parameters())


def test_a_tied_table_is_one_parameter_everywhere(tmp_path, rng):
    """Once among the parameters, in the optimiser's groups and in the file; still tied when loaded and stepped."""
    model, tokenizer = tiny(tmp_path / "tied.safetensors")
    numbers = sum(tensor.numel() for tensor in model.state_dict().values())
    table = model.embedding.token.weight
    assert sum(parameter is table for parameter in model.parameters()) == 1
    assert model.n_parameters() == numbers - table.numel()
    tiny(tmp_path / "untied.safetensors", tie_weights=False)
    sizes = [(tmp_path / f"{name}.safetensors").stat().st_size for name in ("untied", "tied")]
    assert sizes[0] - sizes[1] > 4 * table.numel()
    loaded = load_checkpoint(tmp_path / "tied.safetensors").model
    optimizer = make_optimizer(loaded, Recipe())
    grouped = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    assert sum(parameter is loaded.output.weight for parameter in grouped) == 1
    before = loaded.output.weight.clone()
    Trainer(loaded, optimizer).step(draw_ids(rng, 2, 4), draw_ids(rng, 2, 4))
    assert loaded.output.weight is loaded.embedding.token.weight
    assert not mg.equal(loaded.output.weight, before)
    save_checkpoint(tmp_path / "again.safetensors", loaded, tokenizer)
    assert load_checkpoint(tmp_path / "again.safetensors").model.n_parameters() == model.n_parameters()


def test_a_checkpoint_keeps_a_bpe_tokenizer_and_the_state_of_the_training(tmp_path, rng):
    tokenizer = BPETokenizer.train("the cat, the hat, the bat", vocab_size=260)
    model = make_model(vocab_size=260)
    optimizer = make_optimizer(model, Recipe())
    Trainer(model, optimizer).step(draw_ids(rng, 2, 4), draw_ids(rng, 2, 4))
    state = {"optimizer": optimizer.state_dict(), "rng": mg.get_rng_state(), "loss": math.inf}
    save_checkpoint(str(tmp_path / "b"), model, tokenizer, state)
    checkpoint = load_checkpoint(str(tmp_path / "b"))
    assert checkpoint.tokenizer.encode("the rat") == tokenizer.encode("the rat")
    assert same(checkpoint.training["rng"], state["rng"])
    assert checkpoint.training["loss"] == math.inf
    twin = make_optimizer(checkpoint.model, Recipe())
    twin.load_state_dict(checkpoint.training["optimizer"])
    ids, targets = draw_ids(rng, 2, 4), draw_ids(rng, 2, 4)
    for one, its_optimizer in ((model, optimizer), (checkpoint.model, twin)):
        Trainer(one, its_optimizer).step(ids, targets)
    pairs = zip(model.parameters(), checkpoint.model.parameters(), strict=True)
    assert all(same(a, b) for a, b in pairs)


def test_of_a_run_the_best_checkpoint_is_loaded_or_else_the_last(tmp_path):
    with pytest.raises(CheckpointError, match=r"no checkpoint in '.*': train a model"):
        load_checkpoint(tmp_path)
    last, _ = tiny(tmp_path / "last.safetensors", seed=1)
    assert same(load_checkpoint(tmp_path).model.output.weight, last.output.weight)
    best, _ = tiny(tmp_path / "best.safetensors", seed=2)
    assert same(load_checkpoint(tmp_path).model.output.weight, best.output.weight)
    assert find_checkpoint(tmp_path / "last.safetensors") == tmp_path / "last.safetensors"


# --- what is refused ----------------------------------------------------------------------------------------


def complaint(path):
    """Return the sentence with which a checkpoint is refused: it names the file."""
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(path)
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    return message


def test_a_file_that_is_not_there(tmp_path):
    assert "there is no checkpoint" in complaint(tmp_path / "nothing.safetensors")


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"some text, which is no checkpoint " * 9, bytes(range(256)) * 8, b"\x00" * 100]
)
def test_a_file_of_another_kind(content, tmp_path):
    (tmp_path / "x.safetensors").write_bytes(content)
    complaint(tmp_path / "x.safetensors")


@pytest.mark.parametrize(
    "content",
    [{"w": mg.ones(3)}, [1, 2], 7, "text", None, {"format": "other"}, {"format": mg.ones(2)}, {"format": [1]}],
    ids=lambda content: type(content).__name__,
)
def test_a_file_of_tensors_that_is_no_checkpoint(content, tmp_path):
    mg.save(content, tmp_path / "x.safetensors")
    assert "is not a checkpoint" in complaint(tmp_path / "x.safetensors")


def test_a_file_of_another_program(tmp_path):
    library = pytest.importorskip("safetensors.numpy")
    library.save_file({"weight": np.ones((2, 2), np.float32)}, tmp_path / "x.safetensors")
    assert "is not a checkpoint" in complaint(tmp_path / "x.safetensors")


@pytest.mark.parametrize("version", [0, 2, "1", None, [1], math.nan, mg.ones(2)], ids=str)
def test_a_checkpoint_of_another_version(version, tmp_path):
    path = tmp_path / "x.safetensors"
    tiny(path)
    mg.save({**mg.load(path), "version": version}, path)
    assert "this program reads version 1" in complaint(path)


class DROP:
    """Stands for: leave it out."""


def replaced(content, place, value):
    """Return nested dicts with another value in one place."""
    key, *rest = place
    changed = {**content, key: replaced(content[key], rest, value) if rest else value}
    if not rest and value is DROP:
        del changed[key]
    return changed


@pytest.mark.parametrize(
    ("place", "value"),
    [
        *((("config",), value) for value in (DROP, None, [], "text", {}, {"vocab_size": 11}, 3)),
        *((("config", "vocab_size"), value) for value in (DROP, 10, 12, 0, "11", 10**30)),
        *(
            (("config", name), n)
            for name, n in (("n_layers", 10**4), ("n_layers", 10**9), ("d_ff", 3 * 10**6), ("d_model", 10**9))
        ),
        *((("config", "context"), value) for value in (0, -5, None, 8.0)),
        *((("config", "n_heads"), value) for value in (3, 0, 10**9)),
        *((("config", name), math.nan) for name in ("dropout", "layer_norm_eps")),
        (("config", "layer_norm_eps"), math.inf),
        (("config", "norm"), "pre"),
        (("config", "norm"), "sandwich"),
        (("config", "bias"), True),
        (("config", "unknown"), 1),
        *((("tokenizer",), value) for value in (DROP, None, {}, {"kind": "x"}, 5, {"kind": "char"})),
        *((("tokenizer", "characters"), value) for value in ("ab", ["a"] * 11, [1] * 11, None, ["ab"] * 11)),
        *((("model",), value) for value in (DROP, None, {}, [1], "text", mg.ones(1000))),
        (("model", "blocks.0.attention.W_Q.weight"), DROP),
        (("model", "blocks.0.attention.W_Q.weight"), mg.ones(4, 5)),
        (("model", "blocks.0.attention.W_Q.weight"), 3),
        (("model", "blocks.0.attention.W_Q.weight"), None),
        (("model", "unknown"), mg.ones(2)),
    ],
    ids=str,
)
def test_a_checkpoint_that_contradicts_itself(place, value, tmp_path):
    """One sentence, whatever is wrong, and no memory for a model that the file does not hold."""
    path = tmp_path / "x.safetensors"
    tiny(path)
    mg.save(replaced(mg.load(path), place, value), path)
    with PeakMemory() as memory:
        assert "is damaged: " in complaint(path)
    assert memory.peak < 20e6


@pytest.mark.parametrize("context", [3_000_000, 10**15, 10**30])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_a_checkpoint_that_claims_a_huge_context_takes_no_memory_for_it(context, positions, tmp_path):
    path = tmp_path / "x.safetensors"
    tiny(path, positions=positions)
    mg.save(replaced(mg.load(path), ["config", "context"], context), path)
    with PeakMemory() as memory:
        if positions == "learned":
            assert "is damaged: " in complaint(path)
        else:  # there is no table in the file, so that any length may be meant
            assert load_checkpoint(path).config.context == context
    assert memory.peak < 20e6


@pytest.mark.parametrize("training", [None, [1], "text", 3])
def test_a_checkpoint_whose_training_state_is_no_dict_is_still_a_model(training, tmp_path):
    path = tmp_path / "x.safetensors"
    model, _ = tiny(path)
    mg.save(replaced(mg.load(path), ["training"], training), path)
    checkpoint = load_checkpoint(path)
    assert checkpoint.training == {}
    assert same(checkpoint.model.output.weight, model.output.weight)


def test_a_checkpoint_that_is_cut_off_anywhere(tmp_path):
    path = tmp_path / "x.safetensors"
    tiny(path)
    content = path.read_bytes()
    (header,) = struct.unpack("<Q", content[:8])
    boundary = 8 + header
    assert 100 < boundary < len(content) - 100
    lengths = {*range(20), *range(20, len(content), 61), *range(boundary - 6, boundary + 6)}
    for length in sorted(lengths | {len(content) - 4, len(content) - 1}):
        path.write_bytes(content[:length])
        complaint(path)
    path.write_bytes(content)
    assert load_checkpoint(path).training["step"] == 7


def test_a_checkpoint_with_damaged_bytes_is_refused(tmp_path, rng):
    """Wherever the damage is, also in the weights themselves; nothing else happens, and no memory is taken."""
    path = tmp_path / "x.safetensors"
    tiny(path)
    content = path.read_bytes()
    (header,) = struct.unpack("<Q", content[:8])
    places = [*range(8), *rng.integers(8, 8 + header, 150), *rng.integers(8 + header, len(content), 50)]
    with PeakMemory() as memory:
        for i, place in enumerate(places):
            damaged = bytearray(content)
            if i % 2:
                damaged[place] ^= 1 << int(rng.integers(8))
            else:
                damaged[place] = rng.choice([c for c in b'0179{}[]",:- e.\x00\xff' if c != content[place]])
            if (
                damaged[8 : 8 + header].strip() != content[8 : 8 + header].strip()
                or place < 8
                or place >= 8 + header
            ):
                path.write_bytes(damaged)
                complaint(path)
    assert memory.peak < 20e6


def tampered(path, **tensors):
    """Save a tiny checkpoint with other weights, and a checksum that is right."""
    tiny(path)
    content = mg.load(path)
    mg.save({**content, "model": {**content["model"], **tensors}}, path)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_weights_that_are_no_numbers_are_neither_loaded_nor_saved(value, tmp_path):
    path = tmp_path / "x.safetensors"
    good, tokenizer = tiny(path)
    bad = make_model(n_layers=1, d_model=4, d_ff=4)
    with mg.no_grad():
        bad.blocks[0].ffn.expand.bias[3] = value
    with pytest.raises(NotFinite, match=r"'blocks\.0\.ffn\.expand\.bias' holds infinity or NaN"):
        save_checkpoint(path, bad, tokenizer)
    assert same(load_checkpoint(path).model.output.weight, good.output.weight)
    tampered(path, **{"blocks.0.ffn.expand.bias": bad.blocks[0].ffn.expand.bias})
    assert "'blocks.0.ffn.expand.bias' holds infinity or NaN" in complaint(path)


@pytest.mark.parametrize("dtype", [mg.int64, mg.uint8, mg.bool])
def test_weights_of_another_kind_of_number_are_refused(dtype, tmp_path):
    tampered(tmp_path / "x", **{"blocks.0.ffn.expand.bias": mg.zeros(4, dtype=dtype)})
    assert "'blocks.0.ffn.expand.bias' is of dtype" in complaint(tmp_path / "x")


@pytest.mark.parametrize("tied", [True, False])
def test_weights_that_are_tied_where_the_config_says_they_are_not_are_refused(tied, tmp_path):
    """An untied checkpoint must not lose its output table by calling itself tied, nor the other way round."""
    path = tmp_path / "x"
    tiny(path, tie_weights=tied)
    content = mg.load(path)
    mg.save(replaced(content, ("config", "tie_weights"), not tied), path)
    assert "tie_weights" in complaint(path)
    separate = {name: tensor.clone() for name, tensor in content["model"].items()}
    mg.save({**replaced(content, ("config", "tie_weights"), True), "model": separate}, path)
    assert "tie_weights" in complaint(path)


def test_many_tiny_blocks_take_no_more_memory_than_the_file(tmp_path):
    """A hundred thousand blocks would be a million Python objects and more: their weights must all be named."""
    path = tmp_path / "x"
    tiny(path)
    content = mg.load(path)
    config = {**content["config"], "d_model": 2, "n_heads": 1, "d_ff": 1, "n_layers": 100_000}
    table = mg.zeros(VOCABULARY, 2)
    rest = mg.zeros(n_parameters(Config.from_dict(config)) - table.numel())
    weights = {"embedding.token.weight": table, "output.weight": table, "rest": rest}
    mg.save({**content, "config": config, "model": weights}, path)
    with PeakMemory() as memory:
        assert "describes another model" in complaint(path)
    assert memory.peak < 3 * path.stat().st_size + 1e6
