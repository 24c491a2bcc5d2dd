"""What every test starts from: Hypothesis profiles, and an engine whose global state is as after import.

Three profiles, chosen by the environment variable ``HYPOTHESIS_PROFILE``:

- ``default``: the same few examples on every run and every machine, so that a red run can be repeated;
- ``ci``: the same, with four times as many examples, and the tests that are marked as slow;
- ``thorough``: many examples, drawn anew each time, for a search that may take as long as it likes; these too.
"""

import importlib
import os
import pkgutil

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

import minigrad as mg
from minigrad.op import numpy_functions, registry
from minigrad.tensor import print_options

for module in pkgutil.walk_packages(mg.__path__, "minigrad."):
    importlib.import_module(module.name)  # each registers its operations: the tables of cases are to be complete

slow_is_fine = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
settings.register_profile(
    "default",
    derandomize=True,
    deadline=None,
    max_examples=20,
    database=None,
    suppress_health_check=slow_is_fine,
)
settings.register_profile("ci", settings.get_profile("default"), max_examples=80)
settings.register_profile(
    "thorough", derandomize=False, deadline=None, max_examples=500, suppress_health_check=slow_is_fine
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_collection_modifyitems(items):
    """Skip what is marked as slow, unless a deeper profile is chosen."""
    if os.environ.get("HYPOTHESIS_PROFILE", "default") == "default":
        for item in items:
            if item.get_closest_marker("slow"):
                item.add_marker(pytest.mark.skip(reason="it takes long: HYPOTHESIS_PROFILE=ci runs it too"))


@pytest.fixture(autouse=True)
def fresh_engine():
    """Give each test the engine as after import, and leave it so: seed 0, float32, recording, its own operations.

    A test that changes one of these, or declares an operation, has nothing to put back, also if it fails.
    """
    generator_state = mg.get_rng_state()
    dtype = mg.get_default_dtype()
    tables = registry, numpy_functions, print_options
    before = [dict(table) for table in tables]
    mg.manual_seed(0)
    with mg.set_grad_enabled(True):
        yield
    for table, content in zip(tables, before, strict=True):
        table.clear()
        table.update(content)
    mg.set_default_dtype(dtype)
    mg.set_rng_state(generator_state)


@pytest.fixture
def double():
    """Make new tensors float64; :func:`fresh_engine` takes it back."""
    mg.set_default_dtype(mg.float64)


@pytest.fixture
def rng():
    """Return NumPy's generator, seeded: for the inputs and cotangents of tests that draw none."""
    return np.random.default_rng(20170612)


@pytest.fixture
def share_out_small_batches(monkeypatch):
    """Have threads share out batches of any size: those of the tests are small."""
    monkeypatch.setattr("transformer.Trainer.tokens_per_thread", 1)


@pytest.fixture
def small_runs(monkeypatch, share_out_small_batches):
    """The same of whole runs, whose samples are short."""
    from runs import SAMPLE_TOKENS

    monkeypatch.setattr("transformer.text.SAMPLE_TOKENS", SAMPLE_TOKENS)


@pytest.fixture(scope="session")
def torch():
    """Return PyTorch, the peer that some tests compare with; without it they are skipped."""
    return pytest.importorskip("torch", reason="PyTorch is not installed: pip install minigrad[torch]")


@pytest.fixture(scope="module")
def torch_in_one_thread():
    """Have PyTorch compute in one thread: on small tensors several only wait for each other."""
    try:
        import torch
    except ImportError:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
