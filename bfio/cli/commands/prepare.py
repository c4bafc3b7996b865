"""``bfio prepare``: compile the kernels once."""

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from bfio.cli import options
from bfio.cli.command import DONE, Command
from bfio.cli.output import print_json, progress_bar

_DESCRIPTION = """\
Compile the kernels of the exact methods, the two-stage heuristic and the compiled engines, and
keep them on disk: one or two minutes, once per installation. Without it the exact methods compile
when first used, and small runs of the other policies use plain Python.
"""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_common(parser)


def compile_group(group: str) -> str:
    """Compile one group of kernels, in this process."""
    if group == "exact":
        from bfio.step.exact import prepare

        prepare()
    elif group == "two-stage":
        from bfio.step.two_stage.heuristic import compile_kernels

        compile_kernels()
    elif group == "kv-cache":
        from bfio.kvcache.compiled import compile_kernel as compile_cache_kernel

        compile_cache_kernel()
    elif group == "wait":
        from bfio.wait.compiled import compile_kernels as compile_stage_kernels

        compile_stage_kernels()
    elif group == "hindsight":
        from bfio.hindsight.latency.prepare import prepare as prepare_latency

        prepare_latency()
    elif group == "makespan":
        from bfio.hindsight.makespan.prepare import prepare as prepare_makespan

        prepare_makespan()
    else:
        from bfio.decode.compiled.plan import compile_kernel

        compile_kernel(group)
    return group


def _run(args: argparse.Namespace) -> int:
    began = time.perf_counter()
    groups = ("exact", "two-stage", "br-0", "fcfs", "kv-cache", "wait", "hindsight", "makespan")
    with progress_bar() as bar, ProcessPoolExecutor(2, get_context("spawn")) as pool:
        task = bar.add_task("compile", total=len(groups))
        for _ in pool.map(compile_group, groups):
            bar.advance(task)
    seconds = time.perf_counter() - began
    if args.json:
        print_json({"kernels": list(groups), "seconds": seconds})
    else:
        print(f"kernels ready after {seconds:.0f} s")
    return DONE


COMMAND = Command(
    name="prepare",
    summary="compile the kernels once, so that no later command waits for it",
    description=_DESCRIPTION,
    add_arguments=_add_arguments,
    run=_run,
)
