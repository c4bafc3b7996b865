"""What the compiled engine can run; asked before Numba is loaded."""

from collections.abc import Sequence

from bfio.common.kernels import is_compiled
from bfio.decode.observers import Observer, ProgressObserver

#: Requests from which on compiling a kernel takes less time than it saves.
LARGE_RUN = 50_000

#: Policies with a kernel.
BASELINES = (
    "fcfs",
    "fcfs-by-index",
    "jsq",
    "jsq-tokens",
    "longest-first",
    "max-min",
    "min-min",
    "power-of-2",
    "random",
    "round-robin",
    "router",
    "throttled",
)
TWO_STAGE = ("br-0", "br-h")
#: Predictors that the kernels know; others are asked request by request, in Python.
PREDICTORS = ("none", "oracle")


def may_compile(
    name: str,
    predictor: object = "none",
    observers: Sequence[Observer] = (),
    **options: object,
) -> bool:
    """Whether there is a kernel for a policy, its predictor and what watches the run.

    Parameters
    ----------
    name : str
        Name of the policy.
    predictor : str or Predictor
        A predictor by name, or an object, for which there is none.
    observers : sequence of Observer
        Only `ProgressObserver` needs nothing of what the policy saw.
    **options
        The others of `bfio.decode.engine.simulate`, without effect here.
    """
    return (
        name in (*BASELINES, *TWO_STAGE)
        and isinstance(predictor, str)
        and predictor in PREDICTORS
        and all(isinstance(observer, ProgressObserver) for observer in observers)
    )


def kernel_of(name: str) -> str:
    """Return the entry point that runs a policy, as ``module:function``."""
    if name in TWO_STAGE:
        return "bfio.decode.compiled.two_stage_run:run_two_stage"
    return "bfio.decode.compiled.baseline_run:run_baseline"


def is_worthwhile(name: str, num_requests: int) -> bool:
    """Whether a policy's kernel is compiled already, or the run is long enough to compile it."""
    return num_requests >= LARGE_RUN or is_compiled(kernel_of(name))
