"""Parse the command line, run the command, and report expected failures in one line."""

import argparse
import io
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import formulations
from bfio.cli import guard, so_far
from bfio.cli.command import BAD_INPUT, DONE, INTERRUPTED, Command, OneLineParser, commands, say
from formulations.errors import InputError

_DESCRIPTION = """\
Integer optimization for scheduling and load balancing in LLM serving.

Decode workers of an LLM server advance in lockstep: every step lasts as long as the most loaded
worker. bfio states each routing decision as an integer program, solves it exactly and by
heuristics, and replays traces to measure what the decisions are worth.

Start with:  bfio demo
"""
_EPILOG = """\
Every command takes --json (one JSON document on stdout, nothing else) and --seed.
Exit status: 0 done, 2 bad input, 3 nothing found within the limit, 130 interrupted.
"""


def main(argv: Sequence[str] | None = None, *, guarded: bool = False) -> int:
    """Run ``bfio`` with the given arguments and return its exit status.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments; by default those of the process.
    guarded : bool
        Whether to run the command in a child process (`bfio.cli.guard`) and return its status.
    """
    _open_streams()
    so_far.forget()
    try:
        _check_formulations()
        args = _parser(commands()).parse_args(argv)
        command: Command = args.command
        if guarded:
            guard.fork()
        status = command.run(args)
        sys.stdout.flush()
        if guarded:
            _hear_no_more()
    except InputError as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        so_far.print_interrupted()
        say("interrupted")
        so_far.interruption_said()
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of stdout has closed it.
        _drop_output()
        return DONE
    except OSError as error:
        _drop_output()
        place = error.filename or "output"
        return _fail(f"{place}: {error.strerror or error}; check the path, its rights and space")
    except MemoryError:
        return _fail("memory: not enough for this problem; use a smaller one")
    return status


def _drop_output() -> None:
    """Discard output that stdout does not accept. Python would report it again at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run() -> NoReturn:
    """Run ``bfio`` as a program; never returns."""
    status = main(guarded=hasattr(os, "fork"))
    _hear_no_more()
    sys.exit(status)


def _hear_no_more() -> None:
    """Ignore Ctrl-C after the output is complete, so that it does not change the exit status."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _parser(known: dict[str, Command]) -> argparse.ArgumentParser:
    parser = OneLineParser(
        prog="bfio",
        allow_abbrev=False,
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print versions and leave")
    chooser = parser.add_subparsers(metavar="COMMAND", required=True, title="commands")
    for command in known.values():
        sub = chooser.add_parser(
            command.name,
            help=command.summary,
            description=command.description,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_arguments(sub)
        sub.set_defaults(command=command)
    return parser


class _Version(argparse.Action):
    """Prints the versions that results depend on."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Print the versions and exit."""
        from bfio.common.provenance import version_and_commit, versions

        others = [f"{name} {number}" for name, number in versions().items() if name != "bfio"]
        print(", ".join((version_and_commit(), *others)))
        parser.exit()


def _open_streams() -> None:
    """Replace closed streams, and let streams of limited encodings write question marks.

    Python represents a closed stream by None.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        # Characters such as ÷ or θ are replaced where they cannot be encoded.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _check_formulations() -> None:
    """Refuse to run with the unrelated package of the same name from the package index."""
    if getattr(formulations, "PROJECT", None) != "bfio":
        raise InputError(
            "installation",
            f"the package 'formulations' at {formulations.__file__} is not bfio's",
            "uninstall it and install bfio again",
        )


def _fail(message: str) -> int:
    say(f"error: {message}")
    return BAD_INPUT
