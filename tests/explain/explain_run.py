"""A small run for the explain page's tests: a model, its snapshots, its log and the text it learned from."""

import json

import minigrad as mg
from transformer import Config, Recipe, Transformer, save_checkpoint
from transformer.data import default_corpus
from transformer.text import Text, make_tokenizer
from transformer.training import make_optimizer, training_steps

SNAPSHOTS = (0, 5, 20, 40)


def make_run(directory, text=None, kind="char", vocab_size=300, snapshots=SNAPSHOTS, steps=40, **fields):
    """Train a micro model and leave what `transformer train` would leave; return the directory."""
    text = text or default_corpus()[:30_000]
    (directory / "snapshots").mkdir(parents=True, exist_ok=True)
    source = directory / "text.txt"
    source.write_text(text, encoding="utf-8", newline="")
    tokenizer = make_tokenizer(text, kind, vocab_size)
    config = Config.preset("micro", vocab_size=tokenizer.vocab_size, **fields)
    parts = Text.encode(text, tokenizer, config.context)
    recipe = Recipe(steps=steps, batch_size=8, warmup_steps=5, learning_rate=5e-3, threads=1)
    with mg.fork_rng(1):
        model = Transformer(config)
        lines = []
        if 0 in snapshots:
            save_checkpoint(directory / "snapshots" / "00000000.safetensors", model, tokenizer)
        for progress in training_steps(model, parts.train_ids, recipe, make_optimizer(model, recipe)):
            if progress.step in snapshots:
                save_checkpoint(directory / "snapshots" / f"{progress.step:08d}.safetensors", model, tokenizer)
                line = {"step": progress.step, "loss": progress.loss, "held_out_nats_per_character": progress.loss}
                lines.append(json.dumps(line))
    (directory / "log.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    known = {"source": [str(source)], "text_sha256": parts.train.sha256}
    save_checkpoint(directory / "best.safetensors", model, tokenizer, known)
    return directory
