"""HiGHS as the method for windows uses it: a simplex that goes on from its last basis."""

from typing import Any

from bfio.step.exact.effort import CALL, Effort

#: Operations of a pivot per row.
_PIVOT = 100


class Simplex:
    """A linear program in HiGHS, solved again and again.

    Parameters
    ----------
    effort : Effort
        Counts the work.

    Attributes
    ----------
    highs : highspy.Highs
        The program.
    infinity : float
        Its bound where there is none.
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
        # The dual simplex, after new columns too: the primal one cycles at times.
        self.highs.setOptionValue("simplex_strategy", 1)

    def run(self, most: int | None = None) -> bool:
        """Run it for ``most`` pivots at most; whether it came to its end."""
        if most is not None:
            self.highs.setOptionValue("simplex_iteration_limit", most)
        self.highs.run()
        pivots = max(0, int(self.highs.getInfo().simplex_iteration_count))
        self._effort.spend(CALL + pivots * _PIVOT * self.highs.getNumRow())
        return bool(self.highs.getModelStatus() == self._optimal)
