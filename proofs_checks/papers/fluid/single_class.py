"""One class under WAIT: its batches, what (9) asks, and what is always under way."""

from dataclasses import dataclass
from fractions import Fraction

from proofs_checks.evidence import Data
from proofs_checks.papers.fluid.cases import stage_sum
from proofs_checks.papers.fluid.queues import mean_path, poisson_law, reflected_laws

_NAMES = ("prompt", "output", "threshold", "fixed", "per_token")


@dataclass(frozen=True)
class SingleClass:
    """One class of requests and an engine with d1 > 0; integer clock.

    Parameters
    ----------
    prompt, output : int
        ``l`` and ``l'`` [tokens].
    threshold : int
        ``n`` [prompts].
    fixed, per_token : int
        ``d0`` and ``d1`` [clock units].
    """

    prompt: int
    output: int
    threshold: int
    fixed: int
    per_token: int

    @staticmethod
    def of(data: Data) -> "SingleClass | None":
        """Read plain data; None if an entry is below 1."""
        values = [data[name] for name in _NAMES]
        return SingleClass(*values) if min(values) >= 1 else None

    @property
    def data(self) -> Data:
        """The class as plain data."""
        return {name: getattr(self, name) for name in _NAMES}

    def duration(self, batch: int) -> int:
        """Time of the batch of this number, from 1: the pipeline has that many cohorts at most."""
        last = min(batch - 1, self.output)
        return self.fixed + self.per_token * self.threshold * stage_sum(self.prompt, last)

    @property
    def longest(self) -> int:
        """``ΔT(n)``: the time of a full batch."""
        return self.duration(self.output + 1)

    @property
    def under_way(self) -> int:
        """``n·l'``: so many of those that have arrived are not completed, if so many have.

        A cohort is served when n more have arrived, so that it completes with the l'-th cohort
        after its own.
        """
        return self.threshold * self.output


def mean_queues(single: SingleClass, batches: int) -> list[float]:
    """Return the mean queue at the end of each batch, with ``λ = n/ΔT`` (equality in (9)).

    A batch starts at once if n are there and else when the n-th comes, which leaves none: ``W' =
    max(W, n) − n + X`` with X Poisson(λ·τ).
    """
    n = single.threshold
    laws = [poisson_law(n * single.duration(s) / single.longest) for s in range(1, batches + 1)]
    # The walk before each batch, beyond n; then what comes during the batch.
    walks = mean_path(reflected_laws(laws, n))
    return [
        walk + n * single.duration(s) / single.longest for s, walk in enumerate(walks[:batches], 1)
    ]


def strict_bound(threshold: int, come: Fraction) -> Fraction:
    """``2n + λΔT/(2(n − λΔT))``: the bound on the mean queue with strict (9)."""
    return 2 * threshold + come / (2 * (threshold - come))
