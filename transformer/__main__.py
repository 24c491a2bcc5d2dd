"""The command line: ``transformer train``, ``generate``, ``evaluate`` and ``tokenize``."""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from transformer import commands
from transformer.config import PRESETS, Config
from transformer.training import NonFiniteLoss, Recipe

FROM_PRESET = ("n_layers", "n_heads", "d_model", "d_ff", "context", "dropout")


class Parser(argparse.ArgumentParser):
    """An argument parser whose every complaint is one sentence, with the nearest option if there is one."""

    def error(self, message: str) -> NoReturn:
        """Print the sentence and exit with code 2."""
        print(f"{self.prog}: {message} (see {self.prog} --help)", file=sys.stderr)
        sys.exit(2)

    def refuse_unknown(self, extras: Sequence[str]) -> NoReturn:
        """Complain about the first argument that means nothing here."""
        unknown = extras[0].split("=")[0]
        known = [option for action in self._actions for option in action.option_strings]
        near = difflib.get_close_matches(unknown, known, n=1, cutoff=0.6)
        self.error(f"unknown option {unknown}" + (f": did you mean {near[0]}?" if near else ""))


def add_fields(parser: argparse._ActionsContainer, kind: Any, names: Sequence[str]) -> None:
    """Add an option for each of these fields of a dataclass, with its type, help and default."""
    types: dict[str, Callable[[str], Any]] = {"int": int, "float": float, "str": str}
    for field in dataclasses.fields(kind):
        if field.name not in names:
            continue
        option = "--" + field.name.replace("_", "-")
        default = "from the preset" if kind is Config and field.name in FROM_PRESET else field.default
        help = f"{field.metadata['help']} (default: {default})"
        if field.type == "bool":
            parser.add_argument(option, action=argparse.BooleanOptionalAction, default=None, help=help)
        else:
            parser.add_argument(
                option,
                type=types[str(field.type)],
                choices=field.metadata["choices"] or None,
                metavar=None if field.metadata["choices"] else str(field.type).upper(),
                help=help,
            )


def make_parser() -> tuple[Parser, dict[str, Parser]]:
    """Return the parser and those of its commands."""
    parser = Parser(
        prog="transformer",
        description='Train the transformer of "Attention Is All You Need" on real text, and talk to it.',
        allow_abbrev=False,
    )
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    made: dict[str, Parser] = {}

    def command(name: str, help: str) -> Parser:
        made[name] = subparsers.add_parser(name, help=help, description=help, allow_abbrev=False)
        return made[name]

    def add_run(sub: Parser) -> None:
        sub.add_argument(
            "--out",
            type=Path,
            metavar="RUN",
            help="the run's directory, or a checkpoint file (default: the latest run in runs/)",
        )

    train = command("train", "Train a model on a text.")
    train.add_argument(
        "--text",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="UTF-8 text to learn (default: Python's own reference text, which comes with it)",
    )
    train.add_argument("--out", type=Path, metavar="DIR", help="where to write the run (default: a new runs/N)")
    train.add_argument(
        "--tokenizer",
        choices=("char", "bpe"),
        default="char",
        help="of characters, or byte-pair (default: char)",
    )
    train.add_argument(
        "--vocab-size", type=int, default=512, metavar="INT", help="tokens of a bpe tokenizer (default: 512)"
    )
    train.add_argument(
        "--preset", choices=tuple(PRESETS), default="small", help="the model's size (default: small)"
    )
    model = train.add_argument_group("model")
    add_fields(
        model, Config, [f.name for f in dataclasses.fields(Config) if f.name not in ("vocab_size", "causal")]
    )
    recipe = train.add_argument_group("training")
    add_fields(recipe, Recipe, [f.name for f in dataclasses.fields(Recipe)])

    generate = command("generate", "Continue a prompt.")
    add_run(generate)
    generate.add_argument("--prompt", default="", help="the text to continue (default: none, a fresh start)")
    generate.add_argument("--tokens", type=int, default=400, metavar="INT", help="how many (default: 400)")
    generate.add_argument(
        "--temperature",
        type=float,
        default=0.8,
        metavar="FLOAT",
        help="below 1 bolder, above 1 wilder, 0 always the likeliest token (default: 0.8)",
    )
    generate.add_argument(
        "--top-k", type=int, default=0, metavar="INT", help="draw from the k likeliest; 0: all (default: 0)"
    )
    generate.add_argument(
        "--top-p",
        type=float,
        default=1.0,
        metavar="FLOAT",
        help="draw from the likeliest tokens that together have this probability (default: 1.0, all)",
    )
    generate.add_argument("--seed", type=int, metavar="INT", help="the same seed gives the same text")

    evaluate = command("evaluate", "Measure how well a model predicts text, beside n-gram baselines.")
    add_run(evaluate)
    evaluate.add_argument(
        "--text",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="UTF-8 text to measure on (default: the held-out part of what the run learned from)",
    )

    tokenize = command("tokenize", "Show how a run's tokenizer sees a text.")
    add_run(tokenize)
    tokenize.add_argument("text", nargs="+", metavar="TEXT", help="the text to cut into tokens")
    return parser, made


def chosen(arguments: argparse.Namespace, kind: Any) -> dict[str, Any]:
    """Return those fields of a dataclass that were given on the command line."""
    names = [field.name for field in dataclasses.fields(kind)]
    return {name: value for name in names if (value := getattr(arguments, name, None)) is not None}


def run(argv: Sequence[str] | None = None) -> None:
    """Parse the arguments and carry out the command."""
    argv = list(sys.argv[1:] if argv is None else argv)
    parser, made = make_parser()
    if argv and not argv[0].startswith("-") and argv[0] not in made:
        near = difflib.get_close_matches(argv[0], made, n=1, cutoff=0.5)
        parser.error(f"unknown command {argv[0]}" + (f": did you mean {near[0]}?" if near else ""))
    arguments, extras = parser.parse_known_args(argv)
    sub = made[arguments.command]
    if extras:
        sub.refuse_unknown(extras)
    if arguments.command == "train":
        fields = {name: value for name, value in chosen(arguments, Config).items() if name != "vocab_size"}
        commands.train(
            files=arguments.text,
            out=arguments.out,
            tokenizer_kind=arguments.tokenizer,
            vocab_size=arguments.vocab_size,
            preset=arguments.preset,
            fields=fields,
            recipe=Recipe(**chosen(arguments, Recipe)),
        )
    elif arguments.command == "generate":
        commands.generate(
            arguments.out,
            arguments.prompt,
            arguments.tokens,
            arguments.temperature,
            arguments.top_k,
            arguments.top_p,
            arguments.seed,
        )
    elif arguments.command == "evaluate":
        commands.evaluate(arguments.out, arguments.text)
    else:
        commands.tokenize(arguments.out, " ".join(arguments.text))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; what a user can get wrong becomes one sentence on stderr and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a character that the terminal lacks must not end a run
    try:
        run(argv)
    except (ValueError, NonFiniteLoss) as error:
        print(f"transformer: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        sys.stderr.close()  # whoever read the output has left; that is no error of ours
        return 0
    except OSError as error:
        where = f" '{error.filename}'" if error.filename else ""
        print(f"transformer: cannot use{where}: {error.strerror or error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\ntransformer: stopped; what was saved before stays", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
