"""The kinds of problems in the library, by name."""

from bfio.library.kinds.fluid import Decode, Margin, NestedWait, Stages, Wait
from bfio.library.kinds.hindsight import Latency, Makespan
from bfio.library.kinds.kind import CLOSED_FORM, Judged, Kind
from bfio.library.kinds.step import Step

#: In the order of tables.
KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Step(), Latency(), Makespan(), Stages(), Decode(), Margin(), Wait(), NestedWait()
    )
}  # fmt: skip

__all__ = ["CLOSED_FORM", "KINDS", "Judged", "Kind"]
