"""``transformer export``: a model for PyTorch."""

from __future__ import annotations

import argparse
from pathlib import Path

from transformer.checkpoint import find_checkpoint, load_checkpoint
from transformer.commands.options import add_run, chosen_run
from transformer.commands.report import describe_model
from transformer.export import export

HELP = "Write a run's model for PyTorch: weights, config, and the lines that load them."


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add_run(parser)
    parser.add_argument(
        "--to",
        type=Path,
        metavar="FILE",
        help="where to write the weights (default: RUN/pytorch/model.safetensors)",
    )


def run(arguments: argparse.Namespace) -> None:
    """Write the files, and say where and how to go on."""
    path = find_checkpoint(chosen_run(arguments))
    checkpoint = load_checkpoint(path)
    weights, said, program = export(
        checkpoint.model,
        checkpoint.tokenizer,
        arguments.to or path.parent / "pytorch" / "model.safetensors",
    )
    print(f"model  {path}, {describe_model(checkpoint.model)}")
    print(f"wrote  {weights} ({weights.stat().st_size / 1e6:.2f} MB): the weights, under PyTorch's names")
    print(f"wrote  {said}: the config and the tokenizer")
    print(f"wrote  {program}: the model in PyTorch, which needs nothing of this package")
    print(f"""
next, in {program.parent}, with PyTorch (pip install torch safetensors):

    import torch
    from decoder import load
    model = load("{weights.name}")
    logits = model(torch.tensor([[0, 1, 2]]))  # token ids (B, T) to scores (B, T, V)""")
