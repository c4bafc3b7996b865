"""The features of the machine that machine code contains only where a run uses them.

Functions of a feature are marked with its name (``part_of`` of `bfio.common.compilable`). A policy
has two loops: a plain one, linked without them, and one that knows every feature. One for each set
of features would be compiled anew with every new combination.
"""

from collections.abc import Callable, Mapping

from bfio.decode.cluster import Cluster
from bfio.decode.drift import DriftReading
from bfio.decode.machine.state import may_interrupt
from bfio.decode.options import NO_EVENTS, Overflow, RunOptions
from bfio.decode.prediction.registry import lengths_of
from bfio.decode.predictor import LengthSource

#: The features, and whether a run uses each.
PARTS: Mapping[str, Callable[[Cluster, RunOptions], bool]] = {
    "age": lambda _, options: (
        options.drift.reading is DriftReading.AGE and not options.drift.is_uniform
    ),
    "cancellations": lambda _, options: options.cancellations != NO_EVENTS,
    "delay": lambda _, options: options.delay > 0,
    "failures": lambda _, options: options.failures != NO_EVENTS,
    "interruptions": may_interrupt,
    "overflow": lambda cluster, options: (
        cluster.memory is not None and options.overflow is not Overflow.RESERVE
    ),
    "predictions": lambda _, options: lengths_of(options.predictor) is LengthSource.COMPILED,
    "prefill": lambda _, options: options.prefill is not None,
    "prefixes": lambda cluster, _: cluster.prefix_cache is not None,
    "stragglers": lambda _, options: options.stragglers != NO_EVENTS,
    "telemetry": lambda _, options: options.telemetry is not None,
}
EVERY_PART = frozenset(PARTS)


def parts_used(cluster: Cluster, options: RunOptions) -> frozenset[str]:
    """Return the features that a run uses."""
    return frozenset(name for name, is_used in PARTS.items() if is_used(cluster, options))


def parts_linked(cluster: Cluster, options: RunOptions) -> frozenset[str]:
    """Return the features that the loop of a run knows: all, or none if it uses none."""
    return EVERY_PART if parts_used(cluster, options) else frozenset()
