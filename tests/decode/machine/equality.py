"""Equality of runs, and kernels run as plain Python."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any
from unittest.mock import patch

import numpy as np

from bfio.common.kernels import rewired
from bfio.decode.cluster import Cluster
from bfio.decode.machine import kernel, whole_run
from bfio.decode.policy_registry import specs
from bfio.decode.run import Run
from bfio.decode.simulation import simulate
from bfio.prediction import length_history
from bfio.testing.runs import what_is_read
from bfio.workloads.workload import Workload
from formulations.errors import InputError

#: Fields on how the run was simulated, which may differ.
CLOCKS = {"wall_s", "decide_s", "engine"}
#: Policies with a kernel: those that serve one request after the other, and all others.
GREEDY = [spec.name for spec in specs() if getattr(spec.kernel, "choose", None) is not None]
OTHERS = [spec.name for spec in specs() if spec.kernel is not None and spec.name not in GREEDY]


def differences(first: Run, second: Run) -> list[str]:
    """Return the fields in which two runs differ; arrays are compared by bits and type."""
    return [
        field.name
        for field in fields(Run)
        if field.name not in CLOCKS
        and not _same(getattr(first, field.name), getattr(second, field.name))
    ]


def _same(first: Any, second: Any) -> bool:
    if type(first) is not type(second):
        return False
    if not isinstance(first, np.ndarray):
        return bool(first == second)
    same_kind = first.dtype == second.dtype and first.shape == second.shape
    frozen = not first.flags.writeable and not second.flags.writeable
    # Bytes: NaN equals NaN, and 0.0 differs from -0.0.
    return same_kind and frozen and first.tobytes() == second.tobytes()


def both_engines(
    workload: Workload,
    name: str,
    cluster: Cluster,
    policy_options: dict[str, Any] | None = None,
    **options: Any,
) -> tuple[Run | None, Run]:
    """Run a policy on the compiled and on the reference engine, with the options that it reads."""
    given = (workload, name, policy_options, cluster)
    lengths = workload.prompt_tokens.copy(), workload.output_tokens.copy()
    runs = run_compiled(*given, **options), run_reference(*given, **options)
    # The engines read the arrays of the workload itself.
    assert np.array_equal(lengths, (workload.prompt_tokens, workload.output_tokens))
    return runs


def _with(
    name: str, cluster: Cluster, options: dict[str, Any], given: dict[str, Any] | None
) -> dict[str, Any]:
    own = {option: value for option, value in (given or {}).items() if value is not None}
    return what_is_read(name, cluster, options | own)


def run_compiled(
    workload: Workload,
    name: str,
    policy_options: dict[str, Any] | None,
    cluster: Cluster,
    **options: Any,
) -> Run | None:
    """Run a policy on the compiled engine; None if it does not support the run."""
    options = _with(name, cluster, options, policy_options)
    try:
        return simulate(workload, name, cluster, engine="compiled", **options)
    except InputError as error:
        if "the compiled engine cannot run" not in str(error):
            raise
        return None


def run_reference(
    workload: Workload,
    name: str,
    policy_options: dict[str, Any] | None,
    cluster: Cluster,
    **options: Any,
) -> Run:
    """Run a policy on the reference engine."""
    options = _with(name, cluster, options, policy_options)
    return simulate(workload, name, cluster, engine="reference", **options)


def assert_same_run(
    workload: Workload,
    name: str,
    cluster: Cluster,
    policy_options: dict[str, Any] | None = None,
    **options: Any,
) -> Run:
    """Assert that the compiled run exists and equals the reference; return it."""
    compiled, reference = both_engines(workload, name, cluster, policy_options, **options)
    assert compiled is not None
    assert differences(compiled, reference) == []
    return compiled


@contextmanager
def as_plain_python() -> Iterator[None]:
    """Run kernels as plain Python, without compiling."""
    run = whole_run.run_compiled

    def run_plainly(*args: Any, **options: Any) -> Any:
        with patch.multiple(length_history, **_AS_WRITTEN):
            return run(*args, **options)

    with (
        patch.object(whole_run, "run_compiled", run_plainly),
        patch.object(whole_run, "compile_loop", lambda *_: None),
        patch.object(whole_run, "machine_code_of", _plain_loop),
        # Nothing is on disk that ``auto`` could look for.
        patch.object(whole_run, "is_worthwhile", lambda *_, **__: False),
    ):
        yield


#: Taken once: within a second call of :func:`as_plain_python` they stand there already.
_AS_WRITTEN: dict[str, Any] = {
    "steps_left": length_history.steps_left.__recipe__.compiled_as  # type: ignore[attr-defined]
}


def _plain_loop(loop: whole_run.Loop) -> Callable[..., int]:
    run: Callable[..., int] = rewired(kernel.run_chunk, decide=whole_run.decide_of(loop))
    return run
