"""The settings that are rehearsed, and the constants of rehearsals."""

from typing import NamedTuple


class Setting(NamedTuple):
    """How the two-stage heuristic looks ahead.

    With ``ρ`` requests that end per worker and step, the discount is ``γ = r / (r + ρ)``: then a
    worker is expected to lose ``Σ_{h>=1} ρ·γ^h = r`` requests in its discounted window.

    Parameters
    ----------
    losses : int
        ``r`` in hundredths; 0 for no look-ahead.
    penalty : int
        ``β / G``: what overflow costs, in multiples of what it costs the imbalance.
    """

    losses: int
    penalty: int

    @property
    def name(self) -> str:
        """How statistics call it."""
        return f"losses {self.losses / 100:g}, penalty {self.penalty}"


#: BR-0 comes first: it decides among equals.
SETTINGS = (
    Setting(0, 1),
    Setting(0, 4),
    Setting(0, 16),
    *(Setting(losses, 1) for losses in (70, 85, 100, 120, 145, 175)),
    *(Setting(losses, 2) for losses in (50, 60, 70, 85, 100, 120)),
)
#: The setting that decides until the first rehearsal: one request lost per window, β = G.
FIRST_SETTING = SETTINGS.index(Setting(100, 1))
#: Longest window, unless another is asked for.
DEFAULT_HORIZON = 80
#: Weight of the step at hand, and the least that a step of the window has.
FULL_WEIGHT = 10**6
LEAST_WEIGHT = 2 * 10**4

#: The first rehearsal comes when one slot in so many has been given back, the next ones whenever
#: that number has doubled, but at the latest when each slot has been given back once more.
FIRST_REHEARSAL = 16
#: Most steps of a rehearsal, which takes as many as requests live in the mean; those of its first
#: part, one in so many, are not counted.
MOST_STEPS = 1000
UNCOUNTED = 8
#: Requests per slot that the lengths are drawn from, the latest; and that a rehearsal may start.
REMEMBERED = 4
AHEAD = 2
#: Most waiting requests of a rehearsal, the oldest.
MOST_WAITING = 512
#: Draws of one rehearsal, over which scores are means.
DRAWS = 2
#: What an earlier rehearsal counts against the latest.
DECAY = 0.7
#: Windows are believed to tell who ends if they foretell one in so many of the ends.
BELIEVED = 2
#: A length beyond all that were seen is at most so many mean lengths longer.
LONGEST_TAIL = 20
#: The rate of ends is that of about the last ends, one per so many slots.
RATE_MEMORY = 4
#: Steps until a worker gives a slot back, as long as nothing else is known.
FIRST_GUESS = 4
#: Rehearsals that the statistics of a run list.
MOST_LISTED = 1000
#: First random number of every run.
SEED = 0x9E3779B97F4A7C15
