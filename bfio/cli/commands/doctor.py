"""``bfio doctor``: test each part of the installation and list versions."""

import argparse
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from bfio.cli import options
from bfio.cli.command import DONE, Command
from bfio.cli.output import print_json, print_table

_SUMMARY = "show versions, solvers and compiled kernels, and test each part"
_DESCRIPTION = """\
Show versions and commit, the machine, solvers, threads and compiled kernels, and test each part on
a small problem (kernels are compiled for it if necessary). Exit status 1 if a part does not work.
Include the output in bug reports.
"""
#: Exit status if a part does not work.
_SOMETHING_IS_BROKEN = 1
_OK, _ABSENT, _BROKEN = "ok", "not installed", "BROKEN"
#: A step with a known optimum: loads 9 + 1 and 8 + 3, an imbalance of one token.
_STEP: dict[str, Any] = {
    "capacity": [2, 2],
    "base": [[0], [0]],
    "contribution": [[9], [8], [3], [1]],
}
_OPTIMUM = 1


@dataclass(frozen=True)
class Finding:
    """Result of the test of one part: name, state and details."""

    part: str
    state: str
    detail: str


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_common(parser)


def _run(args: argparse.Namespace) -> int:
    from bfio.common.provenance import machine, version_and_commit, versions

    findings = list(_findings())
    about = {"version": version_and_commit(), "versions": versions(), "machine": machine()}
    if args.json:
        print_json(about | {"findings": [asdict(finding) for finding in findings]})
    else:
        others = {name: text for name, text in versions().items() if name != "bfio"}
        print(version_and_commit())
        print(", ".join(f"{name} {text}" for name, text in others.items()))
        print(", ".join(f"{name} {value}" for name, value in machine().items()))
        rows = [(finding.part, finding.state, finding.detail) for finding in findings]
        print_table("", ("part", "state", ""), rows)
    return _SOMETHING_IS_BROKEN if any(f.state == _BROKEN for f in findings) else DONE


def _findings() -> Iterator[Finding]:
    """Yield the test result of each part."""
    from bfio.common.kernel_groups import groups
    from bfio.common.kernels import cache_folders
    from bfio.common.provenance import THREAD_VARIABLES
    from formulations.backends.pyomo_solver import installed_solvers

    methods = dict.fromkeys(("exact", "highs", "cp-sat", "brute-force"), True)
    methods |= {f"pyomo:{name}": is_there for name, is_there in installed_solvers().items()}
    for method, is_there in methods.items():
        part = f"solve --method {method}"
        yield _finding(part, partial(_solved, method)) if is_there else Finding(part, _ABSENT, "")
    for engine in ("reference", "compiled"):
        yield _finding(f"engine {engine}", partial(_replayed, engine))
    counts = [group.num_compiled() for group in groups().values()]
    done, of = (sum(column) for column in zip(*counts, strict=True))
    advice = "" if done == of else "; bfio prepare compiles the others"
    yield Finding("kernels", _OK, f"{done} of {of} compiled in {cache_folders()[0]}{advice}")
    cores = f"{len(os.sched_getaffinity(0))} cores available"
    given = [f"{name}={os.environ[name]}" for name in THREAD_VARIABLES if name in os.environ]
    yield Finding("threads", _OK, ", ".join([cores, *given]))


def _solved(method: str) -> str:
    from bfio.step.solve import solve_step
    from formulations.step import StepProblem

    result = solve_step(StepProblem(**_STEP), method=method, time_limit=60)
    if result.objective != _OPTIMUM:
        raise RuntimeError(f"expected optimum {_OPTIMUM}, got {result.objective}")
    return f"{result.termination}, optimum {result.objective}"


def _replayed(engine: str) -> str:
    import bfio
    from bfio.decode.replay import run_violations

    workload, cluster = bfio.synthetic("demo", 50, seed=0), bfio.Cluster(2, 4)
    run = bfio.simulate(workload, "fcfs", cluster, engine=engine)
    violations = run_violations(run, workload, cluster)
    if violations:
        raise RuntimeError(f"the checker found violations: {violations}")
    return f"{run.steps} steps, replayed"


def _finding(part: str, try_it: Callable[[], str]) -> Finding:
    try:
        return Finding(part, _OK, try_it())
    # A broken installation may raise anything; show it.
    except Exception as error:
        return Finding(part, _BROKEN, f"{type(error).__name__}: {' '.join(str(error).split())}")


COMMAND = Command("doctor", _SUMMARY, _DESCRIPTION, _add_arguments, _run)
