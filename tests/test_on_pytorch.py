"""The model on PyTorch: the same source, the same numbers, and weights that stock PyTorch modules load."""

import ast
import itertools
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import minigrad as mg
import transformer
from transformer import CharTokenizer, Config, Transformer, save_checkpoint
from transformer.__main__ import main
from transformer.engine import FILES, model_on
from transformer.export import DECODER, weights_for_pytorch

pytestmark = pytest.mark.usefixtures("torch_in_one_thread")

ROOT = Path(transformer.__file__).parent.parent

VOCABULARY, CONTEXT = 31, 16
VARIANTS = {
    "the paper's": {},
    "pre-norm": {"norm": "pre"},
    "untied": {"tie_weights": False},
    "GELU": {"activation": "gelu"},
    "learned positions": {"positions": "learned"},
    "biases": {"bias": True},
    "not causal": {"causal": False},
    "one head, narrow FFN": {"n_heads": 1, "d_ff": 8, "layer_norm_eps": 0.1},
    "all at once": {
        "norm": "pre",
        "positions": "learned",
        "activation": "gelu",
        "tie_weights": False,
        "bias": True,
    },
}
EXACT = {"float32": 1e-5, "float64": 1e-12}  # the largest difference that rounding may make


@pytest.fixture(params=VARIANTS)
def config(request):
    """Return a small config of each variant."""
    shape = {"n_layers": 3, "n_heads": 4, "d_model": 32} | VARIANTS[request.param]
    return Config(vocab_size=VOCABULARY, context=CONTEXT, **shape)


@pytest.fixture
def ids(rng):
    """Return tokens (B, T) and those after them."""
    tokens = rng.integers(0, VOCABULARY, (3, CONTEXT + 1))
    return tokens[:, :-1].copy(), tokens[:, 1:].copy()


def a_model(config, rng, dtype="float32"):
    """Return a model of a config whose every parameter is random, biases and gains too."""
    model = Transformer(config)
    with mg.no_grad():
        for parameter in model.parameters():
            noise = mg.tensor(rng.normal(0, 0.2, tuple(parameter.shape)), dtype=parameter.dtype)
            parameter.add_(noise)
    return model.to(getattr(mg, dtype))


def on_torch(torch, model):
    """Return the same model on PyTorch."""
    twin = model_on("torch").Transformer(model.config).to(next(iter(torch_tensors(torch, model).values())).dtype)
    twin.load_state_dict(torch_tensors(torch, model))
    return twin


def torch_tensors(torch, model):
    """Return the parameters of a model as PyTorch's tensors, of their own memory."""
    return {name: torch.tensor(tensor.detach().numpy()) for name, tensor in model.state_dict().items()}


def furthest(ours, theirs):
    """Return the largest difference between two tensors."""
    return np.abs(ours.detach().numpy() - theirs.detach().numpy()).max()


class TestSameSource:
    """`model_on("torch")`: the files of the model, with torch imported in minigrad's place."""

    def test_it_is_made_of_pytorch_and_leaves_the_model_on_minigrad_alone(self, torch, config):
        module = model_on("torch")
        model = module.Transformer(config)
        assert model_on("torch") is module
        assert isinstance(model, torch.nn.Module)
        assert all(
            type(part).__module__.startswith(("torch.", "transformer.on_torch.")) for part in model.modules()
        )
        assert isinstance(Transformer(config), mg.nn.Module)
        assert [name for name, _ in model.named_parameters()] == [
            name for name, _ in Transformer(config).named_parameters()
        ]
        assert model.n_parameters() == Transformer(config).n_parameters()

    @pytest.mark.parametrize("dtype", EXACT)
    def test_logits_loss_and_every_gradient(self, torch, config, ids, rng, dtype):
        ours = a_model(config, rng, dtype)
        theirs = on_torch(torch, ours)
        inputs, targets = ids
        for smoothing in (0.0, 0.1):
            loss = ours.loss(mg.tensor(inputs), mg.tensor(targets), smoothing)
            peer = theirs.loss(torch.tensor(inputs), torch.tensor(targets), smoothing)
            assert abs(loss.item() - peer.item()) < EXACT[dtype]
        assert furthest(ours(mg.tensor(inputs)), theirs(torch.tensor(inputs))) < EXACT[dtype]
        loss.backward()
        peer.backward()
        gradients = dict(theirs.named_parameters())
        for name, parameter in ours.named_parameters():
            assert str(gradients[name].grad.dtype) == f"torch.{dtype}"
            assert parameter.grad.abs().max() > 1e-6 or "W_K.bias" in name, name
            assert furthest(parameter.grad, gradients[name].grad) < EXACT[dtype], name

    def test_every_tensor_on_the_way(self, torch, config, ids, rng):
        ours = a_model(config, rng)
        theirs = on_torch(torch, ours)
        with mg.no_grad(), torch.no_grad():
            _, seen = ours.run_with_cache(mg.tensor(ids[0]))
            _, peers = theirs.run_with_cache(torch.tensor(ids[0]))
        assert seen.keys() == peers.keys()
        for name, tensor in seen.items():
            finite = tensor.isfinite().numpy()
            assert (finite == peers[name].isfinite().numpy()).all(), name
            assert furthest(mg.tensor(tensor.numpy()[finite]), peers[name][torch.tensor(finite)]) < 1e-5, name

    def test_texts_of_different_lengths_with_a_cache(self, torch, ids, rng):
        ours = a_model(Config(vocab_size=VOCABULARY, context=CONTEXT, n_layers=2, d_model=32), rng)
        theirs = on_torch(torch, ours)
        with mg.no_grad(), torch.no_grad():
            caches = ours.new_cache(3, 4), theirs.new_cache(3, 4)
            for part in (slice(0, 5), slice(5, 6), slice(6, 9)):
                a = ours(mg.tensor(ids[0][:, part]), cache=caches[0])
                b = theirs(torch.tensor(ids[0][:, part]), cache=caches[1])
                assert furthest(a, b) < 1e-5
                for cache in caches:
                    cache.lengths = [length - i for i, length in enumerate(cache.lengths)]

    def test_it_may_be_on_another_device(self, torch):
        """On PyTorch's "meta" device there are shapes alone, and a tensor that was left on the CPU is refused."""
        ids = torch.zeros(2, 3, dtype=torch.long, device="meta")
        for variant in VARIANTS.values():
            model = model_on("torch").Transformer(Config(vocab_size=VOCABULARY, context=CONTEXT, **variant))
            model.to("meta")
            assert model.run_with_cache(ids)[0].device == ids.device
            model.loss(ids, ids).backward()
            if not model.config.causal:
                continue
            with torch.no_grad():
                cache = model.new_cache(2, capacity=2)
                assert model(ids, cache=cache).shape == model(ids, cache=cache).shape == (2, 3, VOCABULARY)
                cache.lengths = [3, 5]
                assert model(ids, cache=cache).device == ids.device
        model = model_on("torch").Transformer(Config(vocab_size=VOCABULARY, context=2)).to("meta")
        assert model(ids).shape == (2, 3, VOCABULARY), "sinusoids extend there too"


def test_an_engine_that_is_not_there_leaves_nothing_behind():
    with pytest.raises(ModuleNotFoundError, match="no_such_engine"):
        model_on("no_such_engine")
    with pytest.raises(ImportError, match="Tensor"):
        model_on("json")  # which is there, but no engine
    assert not [name for name in sys.modules if "on_json" in name or "no_such_engine" in name]


def test_the_files_are_all_that_the_model_imports():
    """What another engine can't have is in none of them: each imports minigrad, minigrad.nn and one another."""
    for number, file in enumerate(FILES):
        tree = ast.parse((Path(transformer.__file__).parent / f"{file}.py").read_text(encoding="utf-8"))
        allowed = {
            "minigrad",
            "minigrad.nn",
            "transformer.config",
            *(f"transformer.{name}" for name in FILES[:number]),
        }
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) else []
            assert {name for name in names if name.startswith(("minigrad", "transformer"))} <= allowed


class TestExport:
    """`transformer export`: weights under the names of PyTorch's own modules, and the program that loads them."""

    @pytest.fixture
    def exported(self, config, rng, tmp_path):
        """Return a model and where it was exported to."""
        model = a_model(config, rng)
        tokenizer = CharTokenizer("".join(chr(ord("A") + i) for i in range(VOCABULARY)))
        save_checkpoint(tmp_path / "run.safetensors", model, tokenizer)
        path = tmp_path / "new" / "decoder.safetensors"
        assert main(["export", "--out", str(tmp_path / "run.safetensors"), "--to", str(path)]) == 0
        return model, path

    def test_the_documented_lines_load_it_and_give_the_same_logits(self, torch, exported, ids):
        model, path = exported
        program, _ = section("## Export, and load")
        assert path.with_name("decoder.py").read_text(encoding="utf-8") == program == DECODER
        variables = {}
        exec(program, variables)
        twin = variables["load"](path)
        assert {type(part).__module__.partition(".")[0] for part in twin.modules()} == {"torch", "builtins"}
        ours = model(mg.tensor(ids[0]))
        for training, grad in itertools.product((False, True), (False, True)):  # its quick ways, and the others
            with torch.set_grad_enabled(grad):
                assert furthest(ours, twin.train(training)(torch.tensor(ids[0])).detach()) < 1e-5

    def test_every_gradient(self, torch, exported, ids):
        """It can be trained: the same gradients, with those of W_Q, W_K and W_V side by side."""
        model, path = exported
        variables = {}
        exec(DECODER, variables)
        twin = variables["load"](path)
        inputs, targets = ids
        model.loss(mg.tensor(inputs), mg.tensor(targets)).backward()
        logits = twin(torch.tensor(inputs))
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.tensor(targets).flatten()).backward()
        trained = {name: parameter for name, parameter in twin.named_parameters() if parameter.requires_grad}
        assert sum(parameter.numel() for parameter in trained.values()) == model.n_parameters()
        with mg.no_grad():
            for parameter in model.parameters():
                parameter.copy_(parameter.grad)
        if model.config.positions == "sinusoidal":
            assert not twin.position.requires_grad
        gradients = weights_for_pytorch(model)
        for name, parameter in trained.items():
            assert furthest(gradients[name], parameter.grad) < 1e-5, name

    def test_it_says_where_and_how_to_go_on(self, tmp_path, capsys):
        run = tmp_path / "run"
        run.mkdir()
        save_checkpoint(run / "best.safetensors", Transformer(Config(3, context=4)), CharTokenizer("abc"))
        for _ in range(2):  # its own files it replaces
            assert main(["export", "--out", str(run)]) == 0
        printed = capsys.readouterr().out
        for name in ("model.safetensors", "model.json", "decoder.py"):
            assert (run / "pytorch" / name).is_file()
            assert f"wrote  {run / 'pytorch' / name}" in printed
        assert 'load("model.safetensors")' in printed
        assert main(["evaluate", "--out", str(run / "pytorch" / "model.safetensors")]) == 2
        assert "is not a checkpoint written by `transformer train`" in capsys.readouterr().err

    @pytest.mark.parametrize("name", ["model.safetensors", "model.json", "decoder.py"])
    def test_what_is_no_export_stays(self, tmp_path, capsys, name):
        checkpoint = tmp_path / "best.safetensors"
        save_checkpoint(checkpoint, Transformer(Config(3, context=4)), CharTokenizer("abc"))
        mine = tmp_path / name
        mine.write_bytes(checkpoint.read_bytes() if name == "model.safetensors" else b"{}")
        before = mine.read_bytes()
        assert main(["export", "--out", str(tmp_path), "--to", str(tmp_path / "model.safetensors")]) == 2
        assert f"'{mine}' exists and is no export" in capsys.readouterr().err
        assert mine.read_bytes() == before
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["best.safetensors", name])
        assert main(["export", "--out", str(tmp_path), "--to", str(tmp_path / "model.pt")]) == 2
        assert "ends in .safetensors" in capsys.readouterr().err


class TestPage:
    """What "From minigrad to PyTorch" shows, besides the program of an export."""

    def test_the_same_code_in_both(self, torch, capsys):
        (program,) = section("## The same code in both")
        exec(program, {})
        on_torch, n = re.subn(r"^(import|from) minigrad\b", r"\1 torch", program, flags=re.MULTILINE)
        assert n == 3
        exec(on_torch, {})
        ours, theirs = capsys.readouterr().out.splitlines()
        assert ours == theirs

    def test_the_model_itself(self, torch, tmp_path, monkeypatch):
        model = Transformer(Config(VOCABULARY))
        (tmp_path / "runs" / "1").mkdir(parents=True)
        characters = CharTokenizer("".join(chr(ord("A") + i) for i in range(VOCABULARY)))
        save_checkpoint(tmp_path / "runs" / "1" / "best.safetensors", model, characters)
        monkeypatch.chdir(tmp_path)
        (program,) = section("## The model itself on PyTorch")
        variables = {}
        exec(program, variables)
        assert furthest(model(mg.tensor([[1, 2, 3]])), variables["logits"]) < 1e-5

    def test_it_writes(self, torch, tmp_path, monkeypatch, capsys):
        model = Transformer(Config(6, context=8))
        save_checkpoint(tmp_path / "best.safetensors", model, CharTokenizer(" Theab"))
        assert main(["export", "--out", str(tmp_path)]) == 0
        capsys.readouterr()
        monkeypatch.chdir(tmp_path / "pytorch")
        monkeypatch.syspath_prepend(str(tmp_path / "pytorch"))
        monkeypatch.delitem(sys.modules, "decoder", raising=False)
        _, program = section("## Export, and load")
        exec(program, {})
        monkeypatch.delitem(sys.modules, "decoder")
        written = capsys.readouterr().out.removesuffix("\n")
        assert written.startswith("The ")
        assert len(written) == 100
        assert set(written) <= set(" Theab")


def section(title):
    """Return the programs in a section of the page."""
    page = (ROOT / "docs" / "from-minigrad-to-pytorch.md").read_text(encoding="utf-8")
    assert page.count(f"{title}\n") == 1
    return re.findall(r"```python\n(.*?)```", page.partition(f"{title}\n")[2].partition("\n## ")[0], re.DOTALL)
