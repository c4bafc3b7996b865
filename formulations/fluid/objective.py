"""What a completed request is worth: the paper counts its tokens in two ways."""

from enum import StrEnum

from formulations.fluid.problem import RequestClass


class FluidObjective(StrEnum):
    """The two throughputs of the paper; always compare like with like."""

    #: ``l'_j + 1`` iterations, as in (4), (8) and section 4.2.
    STAGES = "stages"
    #: ``l'_j`` decode tokens, as in section 2.3 and the proof of proposition 2.
    DECODE = "decode"

    def worth(self, kind: RequestClass) -> int:
        """Return what one request counts."""
        return kind.iterations if self is FluidObjective.STAGES else kind.output
