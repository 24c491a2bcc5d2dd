"""The command line, ``transformer COMMAND …``: see :mod:`transformer.commands`."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Sequence

from transformer import __version__
from transformer.commands import COMMANDS
from transformer.commands.options import Parser
from transformer.run import Stopped
from transformer.training import NonFiniteLoss


def make_parser() -> tuple[Parser, dict[str, Parser]]:
    """Return the parser and those of its commands."""
    parser = Parser(
        prog="transformer",
        description='Train the transformer of "Attention Is All You Need" on real text, and talk to it.',
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}", help="print the version")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    made: dict[str, Parser] = {}
    for name, command in COMMANDS.items():
        made[name] = subparsers.add_parser(name, help=command.HELP, description=command.HELP, allow_abbrev=False)
        command.add_options(made[name])
    return parser, made


def run(argv: Sequence[str] | None = None) -> None:
    """Parse the arguments and carry out the command."""
    argv = list(sys.argv[1:] if argv is None else argv)
    parser, made = make_parser()
    if argv and not argv[0].startswith("-") and argv[0] not in made:
        near = difflib.get_close_matches(argv[0], made, n=1, cutoff=0.5)
        parser.error(f"unknown command {argv[0]}" + (f": did you mean {near[0]}?" if near else ""))
    arguments, extras = parser.parse_known_args(argv)
    if extras:
        made[arguments.command].refuse_unknown(extras)
    COMMANDS[arguments.command].run(arguments)


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
    except Stopped as stopped:
        print(f"transformer: {stopped}", file=sys.stderr)
        return 130
    except KeyboardInterrupt:
        print("\ntransformer: stopped; what was saved before stays", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
