"""HiGHS as a simplex solver that restarts from its last basis."""

from typing import Any

from bfio.step.exact.effort import CALL, Effort

#: Operations of a pivot per row.
_PIVOT = 100
#: HiGHS's ``simplex_strategy``: serial dual simplex, and primal simplex.
_DUAL = 1
_PRIMAL = 4


class Simplex:
    """A linear program in HiGHS that is solved repeatedly.

    Attributes
    ----------
    highs : highspy.Highs
        The HiGHS model.
    infinity : float
        Value that HiGHS uses for an absent bound.
    """

    def __init__(self, effort: Effort) -> None:
        import highspy

        self._effort = effort
        self.infinity = float(highspy.kHighsInf)
        self._optimal = highspy.HighsModelStatus.kOptimal
        self.highs: Any = highspy.Highs()
        self.highs.setOptionValue("output_flag", False)
        self.highs.setOptionValue("presolve", "off")
        self.highs.setOptionValue("threads", 1)

    def run(self, most: int | None = None, *, primal: bool = False) -> bool:
        """Run the dual or primal simplex, ``most`` pivots at most; return whether it finished."""
        if most is not None:
            self.highs.setOptionValue("simplex_iteration_limit", most)
        self.highs.setOptionValue("simplex_strategy", _PRIMAL if primal else _DUAL)
        # Its own clock has all runs so far.
        self.highs.setOptionValue("time_limit", self.highs.getRunTime() + self._effort.clock.left)
        self.highs.run()
        pivots = max(0, int(self.highs.getInfo().simplex_iteration_count))
        self._effort.spend(CALL + pivots * _PIVOT * self.highs.getNumRow())
        return bool(self.highs.getModelStatus() == self._optimal)
