"""One file that holds all that is needed to use a model: its config, its tokenizer and its weights."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import minigrad as mg
from minigrad import Tensor
from transformer.config import Config
from transformer.footprint import n_parameters
from transformer.model import Transformer
from transformer.tokenizer import Tokenizer, tokenizer_from_dict

FORMAT = "minigrad transformer"
VERSION = 1


class CheckpointError(ValueError):
    """A checkpoint can't be used; the message names the file and the reason in one sentence."""


class NotFinite(ValueError):
    """A number became infinite or NaN; the message names where it is."""


@dataclass
class Checkpoint:
    """What a checkpoint file holds."""

    model: Transformer
    tokenizer: Tokenizer
    training: dict[str, Any] = field(default_factory=dict)
    """What is known of its training: its step, its text, …; in "last" also what the next step depends on."""

    @property
    def config(self) -> Config:
        """The config of the model."""
        return self.model.config


def save_checkpoint(
    path: str | Path, model: Transformer, tokenizer: Tokenizer, training: dict[str, Any] | None = None
) -> None:
    """Write a checkpoint in the safetensors format, replacing an older one only once the new one is whole.

    Args:
        path: the file; its directory must exist.
        model: its config and weights are written, not whether it is training.
        tokenizer: the model's.
        training: what else is to be kept: tensors, and what JSON can hold.

    Raises:
        NotFinite: a weight is infinite or NaN: a good checkpoint is not replaced by a useless one.
        OSError: the file can't be written.
    """
    check_finite(model.state_dict())
    mg.save(
        {
            "format": FORMAT,
            "version": VERSION,
            "config": model.config.to_dict(),
            "tokenizer": tokenizer.to_dict(),
            "model": model.state_dict(),
            "training": training or {},
        },
        path,
    )


def load_checkpoint(path: str | Path) -> Checkpoint:
    """Read a checkpoint; of a run's directory, its ``best.safetensors`` (or else ``last.safetensors``).

    Nothing in the file is executed: it holds numbers and JSON.

    Returns:
        The model, in evaluation mode; its tokenizer; and what is known of its training.

    Raises:
        CheckpointError: the file is missing, truncated, not a checkpoint of this program, or contradicts itself.
    """
    path = find_checkpoint(Path(path))
    try:
        content = mg.load(path)
    except OSError as error:
        raise CheckpointError(f"cannot read the checkpoint '{path}': {error.strerror or error}") from None
    except ValueError as error:
        raise CheckpointError(str(error)) from None
    kind, version = (content.get(key) if isinstance(content, dict) else None for key in ("format", "version"))
    if not isinstance(kind, str) or kind != FORMAT:
        raise CheckpointError(f"'{path}' is not a checkpoint written by `transformer train`")
    if not isinstance(version, int) or version != VERSION:
        raise CheckpointError(
            f"the checkpoint '{path}' has version {version!r:.40}, this program reads version {VERSION}"
        )
    try:
        config = Config.from_dict(content["config"])
        tokenizer = tokenizer_from_dict(content["tokenizer"])
        if tokenizer.vocab_size != config.vocab_size:
            raise ValueError(f"its tokenizer has {tokenizer.vocab_size} tokens, its model {config.vocab_size}")
        weights = content["model"]
        check_weights(config, weights)
        with mg.fork_rng():  # its first weights don't matter: loading leaves the random numbers as they were
            model = Transformer(config)
        model.load_state_dict(weights)
    except (ValueError, TypeError, KeyError, AttributeError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise CheckpointError(f"the checkpoint '{path}' is damaged: {reason}") from None
    model.eval()
    training = content.get("training")
    return Checkpoint(model, tokenizer, training if isinstance(training, dict) else {})


def find_checkpoint(path: Path) -> Path:
    """Return the file that ``path`` means: itself, or the best checkpoint in it if it is a run's directory.

    Raises:
        CheckpointError: there is none.
    """
    is_run = path.is_dir()
    for file in (path / "best.safetensors", path / "last.safetensors") if is_run else (path,):
        if file.exists():
            return file
    raise CheckpointError(
        f"there is no checkpoint {'in ' * is_run}'{path}': train a model with `transformer train --out {path}`"
    )


def check_weights(config: Config, weights: dict[str, Tensor]) -> None:
    """Raise for weights that no model of this config can have, before a far larger one is made.

    Raises:
        ValueError: there are more or fewer than the config asks for, they are tied where it says they are not, or
            something else than finite floating-point numbers.
    """
    tied = weights.get("output.weight") is weights.get("embedding.token.weight")
    if tied != config.tie_weights:
        raise ValueError(f"its config says tie_weights={config.tie_weights}, but its weights say {tied}")
    held = sum(tensor.numel() for tensor in {id(tensor): tensor for tensor in weights.values()}.values())
    if n_parameters(config) != held or config.n_layers > len(weights):
        raise ValueError(f"its config describes another model than the {held} numbers that it holds")
    check_finite(weights)


def check_finite(tensors: dict[str, Tensor]) -> None:
    """Raise for infinity or NaN in a weight, and for something else than floating-point numbers.

    Raises:
        NotFinite: names the first.
        ValueError: names what is no floating-point tensor.
    """
    for name, tensor in tensors.items():
        if not tensor.is_floating_point():
            raise ValueError(f"'{name}' is of dtype {tensor.dtype}, not of a floating one")
        if not tensor.isfinite().all():
            raise NotFinite(f"'{name}' holds infinity or NaN")
