"""``bfio prepare``: compile all kernels and store them on disk."""

import argparse
import time

from bfio.cli import options
from bfio.cli.command import Command
from bfio.cli.output import print_answer

_SUMMARY = "compile all kernels once, so that later commands start faster"
_DESCRIPTION = """\
Compile all kernels that are not compiled yet, and store them on disk: a few minutes, once per
installation. Without this command a kernel is compiled at its first use, and small runs use plain
Python.
"""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_common(parser)


def _run(args: argparse.Namespace) -> int:
    from bfio.common.kernel_groups import compile_groups, groups
    from bfio.common.numba_parts import PLAIN, TESTED, uses_private_parts
    from formulations.errors import InputError

    if not uses_private_parts():
        remedy = f"unset {PLAIN}, or install numba {TESTED[-1]}"
        raise InputError("kernels", "plain Numba stores no kernel on disk", remedy)
    began = time.perf_counter()
    missing = [group for group in groups().values() if not group.is_ready()]
    each = compile_groups(missing)
    seconds = time.perf_counter() - began
    document = {"kernels": list(groups()), "compiled": each, "seconds": seconds}
    return print_answer(args, document, lambda: print(f"kernels ready after {seconds:.0f} s"))


COMMAND = Command("prepare", _SUMMARY, _DESCRIPTION, _add_arguments, _run)
