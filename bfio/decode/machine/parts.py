"""The features of the machine that machine code contains only where a run uses them.

Functions of a feature are marked with its name (``part_of`` of `bfio.common.compilable`). A policy
has two loops: a plain one, linked without them, and one that knows every feature. One for each set
of features would be compiled anew with every new combination.
"""

from collections.abc import Mapping

from bfio.decode.cluster import Cluster
from bfio.decode.drift import DriftReading
from bfio.decode.features.feature import Used
from bfio.decode.features.registry import FEATURES
from bfio.decode.options import RunOptions, may_interrupt
from bfio.decode.prediction.registry import lengths_of
from bfio.decode.predictor import LengthSource

#: The features, and whether a run uses each.
PARTS: Mapping[str, Used] = {
    "age": lambda _, options: (
        options.drift.reading is DriftReading.AGE and not options.drift.is_uniform
    ),
    "interruptions": may_interrupt,
    "predictions": lambda _, options: lengths_of(options.predictor) is LengthSource.COMPILED,
    **{name: used for feature in FEATURES for name, used in feature.parts.items()},
}
EVERY_PART = frozenset(PARTS)


def parts_used(cluster: Cluster, options: RunOptions) -> frozenset[str]:
    """Return the features that a run uses."""
    return frozenset(name for name, is_used in PARTS.items() if is_used(cluster, options))


def parts_linked(cluster: Cluster, options: RunOptions) -> frozenset[str]:
    """Return the features that the loop of a run knows: all, or none if it uses none."""
    return EVERY_PART if parts_used(cluster, options) else frozenset()
