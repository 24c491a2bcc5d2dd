"""The commands of the command line, a file each: ``HELP``, ``add_options(parser)`` and ``run(arguments)``."""

from transformer.commands import evaluate, explain, export, generate, task, tokenize, train

COMMANDS = {
    "train": train,
    "generate": generate,
    "evaluate": evaluate,
    "tokenize": tokenize,
    "explain": explain,
    "export": export,
    "task": task,
}
