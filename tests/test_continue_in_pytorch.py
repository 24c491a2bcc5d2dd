"""A run goes on in PyTorch as it would have gone on in minigrad, in one process or two, and comes back."""

import importlib.util
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from minigrad.optim import Several
from transformer import load_checkpoint, resume
from transformer.__main__ import main
from transformer.state import training_state

EXAMPLE = Path(__file__).parent.parent / "examples" / "continue_in_pytorch.py"
TEXT = "".join(f"{a} + {b} = {a + b}; " for a, b in itertools.product(range(40), range(30)))
BEGUN, MORE = 30, 10  # steps
RUNS = {  # what may differ in a weight: rounding, and with Muon that PyTorch's rounds to bfloat16
    "adamw": ("--optimizer adamw --learning-rate 3e-3", 1e-5),
    "adam": ("--optimizer adamw --learning-rate 3e-3 --weight-decay 0 --norm pre --positions learned", 1e-5),
    "muon": ("--optimizer muon --activation gelu --no-tie-weights --bias", 0.02),
}


@pytest.fixture(scope="module", params=RUNS)
def run(request, tmp_path_factory):
    """Return the directory of a run with a text of the user's own, how it went on in minigrad, and a tolerance."""
    folder = tmp_path_factory.mktemp("run")
    options, tolerance = RUNS[request.param]
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")
    shape = "--preset micro --context 12 --threads 1 --schedule linear --snapshots 0"
    command = f"train --text {folder / 'text.txt'} --out {folder / 'run'} {shape} --steps {BEGUN} {options}"
    assert main(command.split()) == 0
    shutil.copytree(folder / "run", folder / "resumed")
    resume(folder / "resumed", steps=BEGUN + MORE)
    return folder / "run", folder / "resumed", tolerance


@pytest.fixture(scope="module")
def example():
    """Return the example as a module, in a process where PyTorch has one thread."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install minigrad[torch]")
    spec = importlib.util.spec_from_file_location("continue_in_pytorch", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield module
    torch.set_num_threads(before)


def losses(printed):
    """Return the held-out losses that the example printed: minigrad's, PyTorch's, and that after the last step."""
    found = re.findall(r"held-out loss .*?(\d+\.\d+) nats/char", printed)
    assert len(found) == 3, printed
    return [float(number) for number in found]


def memory(path):
    """Return what an optimizer remembers in a checkpoint, by the name of the parameter, and the whole state."""
    checkpoint = load_checkpoint(path)
    recipe, progress, optimizer, generator = training_state(checkpoint, path)
    parts = optimizer.optimizers if isinstance(optimizer, Several) else [optimizer]
    known = {parameter: state for part in parts for parameter, state in part.state.items()}
    named = {name: known[parameter] for name, parameter in checkpoint.model.named_parameters()}
    return checkpoint, recipe, progress, named, generator


def assert_same(ours, theirs, tolerance):
    """Compare two checkpoints of a training: the weights, and all that its next step depends on."""
    (a, recipe, progress, moments, generator), (b, *others) = memory(ours), memory(theirs)
    weights = b.model.state_dict()
    assert a.config == b.config
    for name, tensor in a.model.state_dict().items():
        assert (tensor - weights[name]).abs().max() < tolerance, name
    assert recipe == others[0]
    assert (progress.step, progress.tokens) == (others[1].step, others[1].tokens)
    for field in ("loss", "smooth_loss", "learning_rate"):
        assert getattr(progress, field) == pytest.approx(getattr(others[1], field), abs=tolerance)
    for name, known in moments.items():
        assert known.keys() == others[2][name].keys()
        for key, value in known.items():
            if key == "step":
                assert value == others[2][name][key] == BEGUN + MORE
            else:
                assert (value - others[2][name][key]).abs().max() < tolerance, (name, key)
    assert (generator.get_state() == others[3].get_state()).all()
    assert {**a.training, "optimizer": 0, "rng": 0}.keys() == {**b.training, "optimizer": 0, "rng": 0}.keys()


def test_it_goes_on_as_it_would_have_in_minigrad_and_comes_back(example, run, tmp_path, capsys):
    begun, resumed, tolerance = run
    out = tmp_path / "out"
    assert example.main([str(begun), "--steps", str(MORE), "--out", str(out)]) == 0
    by_minigrad, by_pytorch, after = losses(capsys.readouterr().out)
    assert by_pytorch == pytest.approx(by_minigrad, abs=1e-5)
    assert after < by_pytorch
    in_minigrad = json.loads((resumed / "log.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    assert after == pytest.approx(in_minigrad["held_out_nats_per_character"], abs=tolerance)
    assert_same(resumed / "last.safetensors", out / "last.safetensors", tolerance)
    assert main(["evaluate", "--out", str(out)]) == 0
    row = re.search(r"^this model +(\S+)", capsys.readouterr().out, re.MULTILINE)
    assert float(row[1]) == pytest.approx(after, abs=6e-4)
    assert main(["generate", "--out", str(out), "--prompt", "1 + 1 = ", "--tokens", "3"]) == 0
    assert main(["train", "--resume", str(out), "--steps", str(BEGUN + MORE + 1)]) == 0


@pytest.mark.slow
def test_two_processes_under_torchrun(example, tmp_path, capfd):
    text, begun = tmp_path / "text.txt", tmp_path / "run"
    text.write_text(TEXT, encoding="utf-8")
    options = f"--preset micro --context 12 --threads 1 --snapshots 0 --steps {BEGUN} {RUNS['adamw'][0]}"
    assert main(["train", "--text", str(text), "--out", str(begun), *options.split()]) == 0
    assert example.main([str(begun), "--steps", str(MORE), "--out", str(tmp_path / "one")]) == 0
    alone = losses(capfd.readouterr().out)
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        str(EXAMPLE),
    ]
    command += [str(begun), "--steps", str(MORE), "--out", str(tmp_path / "two")]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    environment |= {"PYTHONPATH": str(EXAMPLE.parent.parent), "PYTHONUTF8": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "2 processes, 8 sequences of a batch each" in done.stdout
    assert losses(done.stdout) == pytest.approx(alone, abs=1e-5)
    assert_same(tmp_path / "one" / "last.safetensors", tmp_path / "two" / "last.safetensors", 1e-5)


def test_what_it_refuses_is_said_in_a_sentence_and_writes_nothing(example, tmp_path, capsys, monkeypatch):
    text, run = tmp_path / "text.txt", tmp_path / "run"
    text.write_text(TEXT, encoding="utf-8")
    command = f"train --text {text} --out {run} --preset micro --steps 1 --threads 1 --snapshots 0 --batch-size 3"
    assert main(command.split()) == 0
    capsys.readouterr()

    def refused(*arguments):
        assert example.main([str(argument) for argument in arguments]) == 2
        out, err = capsys.readouterr()
        assert (out, len(err.splitlines())) == ("", 1), (out, err)
        assert not (tmp_path / "run-pytorch").exists()
        return err

    assert "there is no checkpoint" in refused(tmp_path / "none", "--steps", 1)
    assert "--steps must be at least 1, not 0" in refused(run, "--steps", 0)
    assert f"'{run}' already holds a run" in refused(run, "--steps", 1, "--out", run)
    other = tmp_path / "other.txt"
    other.write_text("something else " * 100, encoding="utf-8")
    assert "is not (or no longer) what the run learned from" in refused(run, "--steps", 1, "--text", other)
    monkeypatch.setattr(example, "WORLD", 2)
    assert "2 processes can't share 3 sequences evenly" in refused(run, "--steps", 1)
