"""What the compiled engine can run; asked before Numba is loaded."""

from collections.abc import Sequence

from bfio.decode.observers import Observer, ProgressObserver

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
