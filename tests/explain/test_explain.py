"""The data of the explain page: every number is the model's own, for every kind of model and text."""

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest

import minigrad as mg
from transformer import Config, Transformer, load_checkpoint, save_checkpoint
from transformer.__main__ import main
from transformer.baselines import ngram_baselines
from transformer.data import split_text
from transformer.explain import Material, Subject, json_text, page_data, page_html
from transformer.explain.data import CHAPTERS
from transformer.explain.heads import SEQUENCES, repeated_length, repeated_scores
from transformer.explain.material import Snapshot
from transformer.tokenizer import BPETokenizer, CharTokenizer, split_words

from .explain_pages import SENTENCE, data_of, numbers
from .explain_run import SNAPSHOTS, make_run

# --- the numbers ------------------------------------------------------------------------------------


def captured(model, ids):
    with mg.no_grad():
        logits, cache = model.run_with_cache(mg.tensor([ids]))
    return logits.numpy()[0], {
        name: t.numpy() if name == "positions" else t.numpy()[0] for name, t in cache.items()
    }


def test_every_captured_tensor_is_in_the_page_bit_for_bit(run, data):
    checkpoint = load_checkpoint(run)
    ids = checkpoint.tokenizer.encode(SENTENCE)
    _, cache = captured(checkpoint.model, ids)
    assert data["text"]["ids"] == ids
    assert set(data["tensors"]) == set(cache)
    for name, array in cache.items():
        shown = numbers(data["tensors"][name])
        assert shown.shape == array.shape, name
        assert shown.tobytes() == array.astype("<f4").tobytes(), name


def test_what_moves_with_training_is_each_snapshot_s_own(run, data):
    ids, chapters = data["text"]["ids"], data["chapters"]
    files = sorted((run / "snapshots").glob("*.safetensors"))
    assert [snapshot["step"] for snapshot in chapters["training"]["snapshots"]] == list(SNAPSHOTS)
    n = len(ids)
    rows, columns = np.tril_indices(n)
    for i, file in enumerate(files):
        model = load_checkpoint(file).model
        logits, cache = captured(model, ids)
        assert numbers(chapters["prediction"]["snapshots"][i]["logits"]).tobytes() == logits[-1].tobytes()
        patterns = np.stack([cache[f"blocks.{layer}.attention.pattern"] for layer in range(2)])
        shown = numbers(chapters["heads"]["snapshots"][i]["patterns"])
        assert np.array_equal(shown, patterns[..., rows, columns].astype(np.float16))
        table = model.embedding.token.weight.detach().numpy()
        shown = numbers(chapters["embedding"]["snapshots"][i]["rows"])
        assert np.array_equal(shown, table[chapters["embedding"]["ids"]].astype(np.float16))
        shifted = logits[:-1] - logits[:-1].max(-1, keepdims=True)
        losses = np.log(np.exp(shifted).sum(-1)) - shifted[np.arange(n - 1), ids[1:]]
        assert np.allclose(numbers(chapters["output"]["losses"][i]), losses, atol=1e-5)
        detectors = chapters["heads"]["snapshots"][i]["detectors"]
        t = np.arange(2, n)
        assert np.allclose(detectors["previous"], patterns[:, :, t, t - 1].mean(-1), atol=1e-6)
        assert np.allclose(detectors["first"], patterns[:, :, t, 0].mean(-1), atol=1e-6)
        assert np.allclose(detectors["itself"], patterns[:, :, t, t].mean(-1), atol=1e-6)


def test_repeated_sequences_score_what_their_names_say(run, subject, data):
    """A head that looks where the same token stood, or just after it, is found: checked on patterns of our own."""
    material = Material(run)
    n = repeated_length(material.model) // 2
    pattern = mg.zeros(2, SEQUENCES, 2, 2 * n, 2 * n)
    for t in range(n, 2 * n):
        pattern[0, :, 1, t, t - n] = 1.0
        pattern[1, :, 0, t, t - n + 1] = 0.75
    asked = []

    class Spy:
        def run_with_cache(self, ids):
            asked.append(ids)
            return None, {f"blocks.{i}.attention.pattern": pattern[i] for i in range(2)}

    material.__dict__["snapshots"] = [Snapshot(0, Spy())]
    [scores] = repeated_scores(material)
    assert scores["same"] == [[0, 1], [0, 0]]
    assert scores["induction"] == [[0, 0], [0.75, 0]]
    ids = asked[0].numpy()
    assert np.array_equal(ids[:, :n], ids[:, n:])
    assert all(len(set(row[:n])) == n for row in ids.tolist())


def test_neighbours_and_map_of_the_embedding_table(run, data):
    table = load_checkpoint(run).model.embedding.token.weight.detach().numpy().astype(np.float64)
    embedding = data["chapters"]["embedding"]
    unit = table / np.linalg.norm(table, axis=1, keepdims=True)
    for id, found in zip(embedding["ids"], embedding["snapshots"][-1]["neighbours"], strict=True):
        cosines = unit @ unit[id]
        cosines[id] = -2
        order = np.argsort(-cosines)[: len(found)]
        assert np.allclose([cosine for _, cosine in found], cosines[order], atol=1e-5)
        assert id not in [other for other, _ in found]
    assert np.array_equal(numbers(embedding["table"]), table.astype(np.float32))
    variances = np.linalg.svd(table - table.mean(0), compute_uv=False) ** 2
    assert embedding["map_share"] == pytest.approx(variances[:2].sum() / variances.sum(), abs=1e-3)


def test_scores_chapter_measures_what_it_says(data):
    scores, d_k = data["chapters"]["scores"], data["model"]["d_k"]
    assert scores["random"]["raw"] == pytest.approx(math.sqrt(d_k), rel=0.1)
    assert scores["random"]["scaled"] == pytest.approx(1, rel=0.1)
    assert scores["one_by_one"]["passes"] == len(SENTENCE)
    assert 0 <= scores["one_by_one"]["difference"] < 1e-5
    flows = {"scaled": [], "unscaled": []}
    for layer in range(2):
        raw = numbers(data["tensors"][f"blocks.{layer}.attention.scores"]).astype(np.float64)[:, 3:]
        for name, factor in (("scaled", 1), ("unscaled", math.sqrt(d_k))):
            powers = np.exp(raw * factor - (raw * factor).max(-1, keepdims=True))
            p = powers / powers.sum(-1, keepdims=True)
            flows[name] += (p * (1 - p)).sum(-1).ravel().tolist()
    for name, values in flows.items():
        assert scores["saturation"][name]["gradient"] == pytest.approx(np.mean(values))
        assert sum(scores["saturation"][name]["counts"]) == scores["saturation"]["rows"] == len(values)


def test_heads_add_up_and_keep_apart(run, data):
    heads, model = data["chapters"]["heads"], load_checkpoint(run).model
    added = numbers(heads["added"])
    for layer in range(2):
        z = numbers(data["tensors"][f"blocks.{layer}.attention.z"])
        weight = model.blocks[layer].attention.W_O.weight.detach().numpy().reshape(32, 2, 16)
        expected = np.einsum("htk,dhk->htd", z, weight)
        assert np.allclose(added[layer], expected, rtol=1e-3, atol=1e-6)
        assert np.abs(expected.sum(0) - numbers(data["tensors"][f"blocks.{layer}.attention.out"])).max() < 1e-5
    assert heads["added_difference"] < 1e-5
    assert heads["independence"]["others"] == 0
    assert heads["independence"]["changed"] > 0


def test_explaining_leaves_the_model_as_it_was(run):
    material = Material(run)
    before = {name: tensor.numpy().copy() for name, tensor in material.model.state_dict().items()}
    page_data(Subject(material, SENTENCE, sample_tokens=1))
    for name, tensor in material.model.state_dict().items():
        assert np.array_equal(tensor.numpy(), before[name]), name


def test_context_chapter_compares_and_changes(run, data):
    checkpoint = load_checkpoint(run)
    compare = data["chapters"]["context"]["compare"]
    assert compare["token"] == "k"
    vectors = numbers(compare["vectors"])
    assert np.array_equal(vectors[0, 0], vectors[1, 0])  # the table knows no context
    for which, phrase in enumerate(("river bank", "savings bank")):
        ids = checkpoint.tokenizer.encode(phrase)[-16:]
        _, cache = captured(checkpoint.model, ids)
        place = compare["places"][which]
        assert np.array_equal(vectors[which, 0], cache["embed"][place])
        assert np.array_equal(vectors[which, -1], cache["blocks.1.norm_ffn"][place])
        assert np.allclose(vectors[which, 1], cache["embed"][place] * math.sqrt(32) + cache["positions"][place])
    change = data["chapters"]["context"]["change"]
    moved = numbers(change["differences"])
    assert (moved[:, : change["place"]] == 0).all()
    assert (moved[2:, change["place"] :] > 0).all()


def test_positions_chapter(run, data):
    positions = data["chapters"]["positions"]
    table = numbers(positions["table"]).astype(np.float64)
    pair = np.arange(0, 32, 2)
    angle = np.arange(16)[:, None] / 10000 ** (pair / 32)
    assert np.allclose(table[:, 0::2], np.sin(angle), atol=1e-6)
    assert np.allclose(table[:, 1::2], np.cos(angle), atol=1e-6)
    for k, overlap in enumerate(positions["overlap"]):
        values = [table[p] @ table[p + k] for p in range(16 - k)]
        assert overlap["mean"] == pytest.approx(np.mean(values), abs=1e-4)
        assert overlap["max"] - overlap["min"] < 1e-4
    assert positions["rotation"] < 1e-10
    assert positions["closest"] > 0.1
    assert positions["swap"]["without"] < 1e-5 < 1e-3 < positions["swap"]["with"]


def test_the_loss_by_position_is_that_of_passages_of_the_held_out_text(subject, data):
    beyond = data["chapters"]["positions"]["beyond"]
    ids = subject.tokenizer.encode(subject.material.texts[1])
    n_passages = (len(ids) - 1) // (4 * 16)
    starts = np.arange(0, n_passages, max(1, n_passages // 24)) * 4 * 16
    losses = []
    for start in starts:
        logits, _ = captured(subject.model, ids[start : start + 4 * 16])
        logits = logits.astype(np.float64)
        targets = ids[start + 1 : start + 4 * 16 + 1]
        losses.append(np.log(np.exp(logits).sum(-1)) - logits[np.arange(4 * 16), targets])
    assert beyond["windows"] == len(losses)
    assert np.allclose(numbers(beyond["losses"]), np.mean(losses, 0), atol=1e-4)


def test_blocks_and_output_chapters(run, data):
    model = load_checkpoint(run).model
    table = model.embedding.token.weight.detach().numpy().astype(np.float64)
    blocks, output = data["chapters"]["blocks"], data["chapters"]["output"]
    assert blocks["parameters"]["total"] == model.n_parameters()
    assert blocks["parameters"]["embedding"] + 2 * blocks["parameters"]["block"] == model.n_parameters()
    for stage, name in ((1, "blocks.0.norm_ffn"), (2, "blocks.1.norm_ffn")):
        logits = numbers(data["tensors"][name]).astype(np.float64) @ table.T
        p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        for t, guess in enumerate(blocks["guesses"][stage]):
            assert np.allclose(guess["probabilities"], np.sort(p[t])[::-1][:5], atol=1e-5)
            assert np.allclose(p[t][guess["tokens"]], guess["probabilities"], atol=1e-5)
    assert blocks["ffn_sees_others"]["itself"] == 0 < blocks["ffn_sees_others"]["others"]
    gain = model.blocks[1].norm_ffn.weight.detach().numpy()
    assert np.array_equal(numbers(blocks["norms"][1]["norm_ffn"]["gain"]), gain)
    assert output["tied"] is True
    logits = numbers(output["final"]).astype(np.float64) @ table.T
    assert np.allclose(logits, numbers(data["tensors"]["logits"]), atol=1e-4)


def test_training_chapter_has_the_log_and_the_baselines(run, data):
    training = data["chapters"]["training"]
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    assert training["log"] == lines
    text = (run / "text.txt").read_text(encoding="utf-8")
    train, held_out = split_text(text)
    expected = ngram_baselines(train, held_out, vocab_size=len(set(text)))
    shown = [(b["name"], b["nats_per_character"]) for b in training["baselines"]]
    assert shown == [(b.name, b.nats_per_character) for b in expected]
    assert all(snapshot["sample"] for snapshot in training["snapshots"])


@pytest.mark.parametrize("text", ["The state of it", "née 😀 日本\n\t<b>"])
def test_merges_replay_to_the_tokenizer_s_own_result(bpe_run, text):
    material = Material(bpe_run)
    subject = Subject(material, text, sample_tokens=1)
    chapter = CHAPTERS["tokens"](subject)
    assert chapter["own"] is True
    words = split_words(subject.text)
    for count in range(len(chapter["merges"]) + 1):
        ids = [list(word) for word in chapter["words"]]
        for merge in chapter["merges"][:count]:
            ids = [replaced(word, merge["pair"], merge["id"]) for word in ids]
        rank = chapter["merges"][count - 1]["rank"] if count else 0
        tokenizer = material.tokenizer.with_merges(rank)
        assert ids == [tokenizer.encode(word) for word in words]
        for id in {id for word in ids for id in word}:
            assert chapter["texts"][str(id)] == tokenizer.token_text(id)


def replaced(word, pair, new):
    result = []
    for id in word:
        if result and [result[-1], id] == pair:
            result[-1] = new
        else:
            result.append(id)
    return result


def test_characters_show_what_merges_would_be(run, data):
    chapter = data["chapters"]["tokens"]
    train, _ = split_text((run / "text.txt").read_text(encoding="utf-8"))
    tokenizer = BPETokenizer.train(train, 512)
    assert chapter["own"] is False
    assert chapter["learned"] == len(tokenizer.merges)
    assert all(list(tokenizer.merges[merge["rank"] - 1]) == merge["pair"] for merge in chapter["merges"])
    for example in chapter["examples"]:
        assert train.count(example["word"]) >= example["count"] >= 1
        assert "".join(example["tokens"]) == "␣" + example["word"]


# --- other models, other texts ----------------------------------------------------------------------


OPTIONS = {
    "pre-norm": {"norm": "pre", "activation": "gelu", "tie_weights": False, "bias": True},
    "learned": {"positions": "learned", "n_heads": 1},
    "not causal": {"causal": False},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_every_kind_of_model_is_explained(tmp_path, name):
    run = make_run(tmp_path / "run", steps=2, snapshots=(0, 2), **OPTIONS[name])
    data = page_data(Subject(Material(run), SENTENCE, sample_tokens=1))
    assert [name for name, chapter in data["chapters"].items() if "error" in chapter] == []
    model = load_checkpoint(run).model
    _, cache = captured(model, data["text"]["ids"])
    assert all(numbers(data["tensors"][key]).tobytes() == cache[key].tobytes() for key in cache)
    guesses = data["chapters"]["blocks"]["guesses"][-1][-1]
    logits = cache["logits"][-1].astype(np.float64)
    p = np.exp(logits - logits.max())
    assert guesses["probabilities"][0] == pytest.approx((p / p.sum()).max(), abs=1e-5)
    assert data["chapters"]["output"]["difference"] < 1e-4
    if name == "learned":
        assert "learned" in data["chapters"]["positions"]["beyond"]["missing"]


@pytest.mark.parametrize("text", ["T", "aa", " \n"])
def test_short_texts(run, text):
    data = page_data(Subject(Material(run), text, sample_tokens=1))
    assert [name for name, chapter in data["chapters"].items() if "error" in chapter] == []
    json.loads(json_text(data))


def test_no_text_is_refused_in_a_sentence(run):
    with pytest.raises(ValueError, match="no text to explain"):
        Subject(Material(run), "")


def test_a_long_text_is_cut_with_a_notice(run, capsys):
    page = run / "long.html"
    assert main(["explain", "--out", str(run), "--text", "the " * 1250, "--html", str(page)]) == 0
    assert "Your text has 5,000 tokens. This page shows the first 16" in capsys.readouterr().out
    data = data_of(page.read_text(encoding="utf-8"))
    assert data["text"]["notice"].startswith("Your text has 5,000 tokens")
    assert len(data["text"]["ids"]) == 16
    assert len(page.read_bytes()) < 3e6


def test_a_run_without_snapshots_or_log_or_text_is_still_explained(run, tmp_path):
    checkpoint = load_checkpoint(run)
    save_checkpoint(
        tmp_path / "best.safetensors", checkpoint.model, checkpoint.tokenizer, {"source": ["gone.txt"]}
    )
    data = page_data(Subject(Material(tmp_path), SENTENCE, sample_tokens=1))
    chapters = data["chapters"]
    assert [name for name, chapter in chapters.items() if "error" in chapter] == []
    assert [snapshot["step"] for snapshot in chapters["training"]["snapshots"]] == [None]
    assert "gone.txt" in chapters["training"]["baselines_missing"]
    assert "gone.txt" in chapters["tokens"]["missing"]
    assert "gone.txt" in chapters["positions"]["beyond"]["missing"]
    assert chapters["training"]["log"] == []


def test_the_finished_model_stands_last_on_the_time_axis(run, tmp_path):
    """It is one of the snapshots, or follows them."""
    steps = [snapshot.step for snapshot in Material(run).snapshots]
    assert steps == list(SNAPSHOTS)
    shutil.copytree(run, tmp_path / "run")
    early = load_checkpoint(run / "snapshots" / "00000005.safetensors")
    damaged = tmp_path / "run" / "snapshots" / "00000002.safetensors"
    damaged.write_bytes(b"damaged")
    save_checkpoint(tmp_path / "run" / "best.safetensors", early.model, early.tokenizer, {})
    assert [snapshot.step for snapshot in Material(tmp_path / "run").snapshots] == [0, 5]
    other = Transformer(early.config)
    for known, steps in (({}, [*SNAPSHOTS, None]), ({"step": 30}, [0, 5, 20, 30])):
        save_checkpoint(tmp_path / "run" / "best.safetensors", other, early.tokenizer, known)
        material = Material(tmp_path / "run")
        assert [snapshot.step for snapshot in material.snapshots] == steps
        assert material.snapshots[-1].model is material.model
        assert len(material.unusable) == 1
        assert str(damaged) in material.unusable[0]


def test_a_failing_chapter_says_so_and_leaves_the_others(subject, monkeypatch):
    def broken(subject):
        raise ZeroDivisionError("a reason\nin two lines")

    monkeypatch.setitem(CHAPTERS, "positions", broken)
    data = page_data(subject)
    assert data["chapters"]["positions"] == {"error": "ZeroDivisionError: a reason in two lines"}
    assert "table" in data["chapters"]["embedding"]
    page_html(data)


def test_the_default_page_is_at_most_3_megabytes():
    """The default model, 32 tokens, thirteen snapshots.  The size does not depend on the values."""
    vocabulary = sorted({chr(code) for code in range(32, 127)} | set("\n“”‘’–—°"))
    assert len(vocabulary) == 103
    tokenizer = CharTokenizer(vocabulary)
    model = Transformer(Config(vocab_size=103)).eval()
    material = Material.__new__(Material)
    material.path = material.directory = Path("runs/1")
    material.model, material.tokenizer, material.computed, material.unusable = model, tokenizer, {}, []
    text = "The quick brown fox jumps over the lazy dog. " * 200
    material.texts = (text, text)
    material.baselines = []
    material.log = [{"step": 500 * i, "loss": 1.0, "held_out_nats_per_character": 1.0} for i in range(7)]
    material.snapshots = [Snapshot(i, model) for i in range(13)]
    data = page_data(Subject(material, "The quick brown fox jumps over ad", sample_tokens=2))
    assert [name for name, chapter in data["chapters"].items() if "error" in chapter] == []
    samples = 13 * 60 * 2
    size = len(page_html(data).encode("utf-8")) + samples
    print(f"the default page with {len(data['text']['ids'])} tokens: {size / 1e6:.2f} MB")
    assert len(data["text"]["ids"]) == 33
    assert size <= 3e6
    long = Subject(material, text[:100])
    assert long.notice == "Your text has 100 tokens. This page shows the first 64, as many as fit on a page."
