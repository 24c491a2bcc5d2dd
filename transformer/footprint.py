"""How much memory a training step needs, known before it is taken."""

from __future__ import annotations

from minigrad.memory import Memory, machine_memory
from transformer.config import Config
from transformer.recipe import Recipe

BYTES_PER_NUMBER = 4  # of float32


def n_parameters(config: Config) -> int:
    """Return the number of a model's parameters, without making it.

    >>> n_parameters(Config.preset("paper", vocab_size=37_000))
    37846016
    """
    d, f = config.d_model, config.d_ff
    block = matrices_in_block(config) + f + d + 4 * d  # the FFN's biases, two LayerNorms
    block += 4 * d * config.bias
    tables = config.vocab_size * d * (1 if config.tie_weights else 2)
    tables += config.context * d * (config.positions == "learned")
    return tables + config.n_layers * block + 2 * d * (config.norm == "pre")


def matrices_in_block(config: Config) -> int:
    """Return the number of weights in a block's matrices: four of attention, two of the FFN."""
    return 4 * config.d_model**2 + 2 * config.d_model * config.d_ff


def kept_per_token(config: Config) -> int:
    """Return how many numbers the graph keeps for each token until the gradients are known.

    In each block: q, k, v, what the heads gather, the same side by side, two sums and two LayerNorms (9 d), the
    attention pattern (heads x context), the hidden layer (three times with GELU, whose rule needs its input
    and Φ); with dropout two masks.  Then the embedded token.  On top, what is greater: two arrays of logits (the
    scores and their gradient), or the gradients within the last FFN.
    """
    d, f = config.d_model, config.d_ff
    block = 9 * d + config.n_heads * config.context + f * (1 if config.activation == "relu" else 3)
    around = d * (1 + (config.norm == "pre"))
    if config.dropout:
        block += 2 * d
        around += d
    return config.n_layers * block + around + max(2 * config.vocab_size, 2 * f + 2 * d)


def step_memory(config: Config, recipe: Recipe) -> int:
    """Return the most memory that the arrays of a training step take at any time, in bytes.

    Weights stay, and AdamW's two means of them, or Muon's one of the blocks' matrices.  Each thread has, at
    first, a graph and the gradient of the output table; at last, when the graph is gone, all gradients, and of a
    tied table its two parts besides their sum; and if its share of the batch goes through in several parts, the
    sum of the gradients so far.
    """
    parameters, table = n_parameters(config), config.vocab_size * config.d_model
    threads = min(recipe.threads, recipe.batch_size)
    share = -(-recipe.batch_size // threads)
    at_once = min(recipe.sequences_at_once or share, share)
    at_first = at_once * config.context * kept_per_token(config) + table
    at_last = parameters + 2 * table * config.tie_weights
    so_far = parameters if at_once < share else 0
    by_muon = config.n_layers * matrices_in_block(config) if recipe.optimizer == "muon" else 0
    return BYTES_PER_NUMBER * (3 * parameters - by_muon + threads * (so_far + max(at_first, at_last)))


def check_memory(config: Config, recipe: Recipe, memory: Memory | None = None) -> str:
    """Return a sentence on what a step needs and what is free, before any of it is taken.

    Args:
        config: the model.
        recipe: how it is trained.
        memory: what the machine has (default: asked of the system).

    Raises:
        ValueError: the machine has less than a step needs, however much of it were free.
    """
    need = step_memory(config, recipe)
    memory = memory or machine_memory()
    says = f"a step needs about {in_units(need)}"
    if memory.total is not None and need > memory.total:
        raise ValueError(
            f"{says}, but this machine has {in_units(memory.total)}: "
            "lower sequences_at_once, threads, the context or the vocabulary"
        )
    if memory.free is None:
        return says
    if need > memory.free:
        return f"{says}, but only {in_units(memory.free)} are free: close other programs, or it may be very slow"
    return f"{says}, {in_units(memory.free)} are free"


def in_units(n_bytes: float) -> str:
    """Return a size for people to read.

    >>> in_units(1_234_567_890), in_units(34_567_890)
    ('1.2 GB', '35 MB')
    """
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:.0f} MB"
