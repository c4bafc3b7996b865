"""The settings that are rehearsed, and the constants of rehearsals."""

from typing import NamedTuple


class Setting(NamedTuple):
    """How the two-stage heuristic looks ahead.

    With a discount of ``γ = τ / (τ + 1)`` the steps of the window that are to come weigh
    ``Σ_{h>=1} γ^h = τ`` times as much as the step at hand.

    Parameters
    ----------
    steps : int
        ``τ`` in hundredths; 0 for no look-ahead.
    penalty : int
        ``β / G``: what overflow costs, in multiples of what it costs the imbalance.
    """

    steps: int
    penalty: int

    @property
    def name(self) -> str:
        """How statistics call it."""
        return f"steps {self.steps / 100:g}, penalty {self.penalty}"


#: Values of τ, in hundredths: from 0.25 to 16, four to an octave.
FINE = tuple(round(25 * 2 ** (k / 4)) for k in range(25))
#: BR-0 comes first: it decides among equals.
SETTINGS = (
    Setting(0, 1),
    Setting(0, 4),
    *(Setting(steps, 2) for steps in FINE),
    *(Setting(steps, 1) for steps in FINE),
)
#: The settings of every rehearsal: no look-ahead, and one τ of each octave with β = 2G.
COARSE = tuple(
    k
    for k, each in enumerate(SETTINGS)
    if each.steps == 0 or (each.penalty == 2 and each.steps in FINE[::4])
)
#: The setting that decides until the first rehearsal: γ = 2/3, β = 2G.
FIRST_SETTING = SETTINGS.index(Setting(200, 2))


def near(best: int) -> tuple[int, ...]:
    """Return the settings that are rehearsed besides, where one of `COARSE` is the best of them.

    The others within its octaves; and with β = G, which wants a longer window, up to the next τ.
    """
    place = FINE.index(SETTINGS[best].steps) if SETTINGS[best].steps > 0 else 0
    wanted = [Setting(FINE[k], 2) for k in range(max(0, place - 3), min(place + 4, len(FINE)))]
    wanted += [Setting(steps, 1) for steps in FINE[place : place + 5]]
    return tuple(k for k in map(SETTINGS.index, wanted) if k not in COARSE)


#: Weight of the step at hand, and the least that a step of the window has.
FULL_WEIGHT = 10**6
LEAST_WEIGHT = 2 * 10**4

#: The first rehearsal comes when one slot in so many has been given back, the next ones whenever
#: that number has doubled, but at the latest when each slot has been given back once more.
FIRST_REHEARSAL = 16
#: Steps at the beginning of a rehearsal that are not counted, one in so many.
UNCOUNTED = 8
#: Requests per slot that the lengths are drawn from, the latest.
REMEMBERED = 4
#: Most waiting requests of a rehearsal, the oldest.
MOST_WAITING = 512
#: Most steps of a rehearsal, in multiples of what running requests have left in the mean; and
#: requests per slot that it may start.
LIVES = 4
#: What an earlier rehearsal counts against the latest.
DECAY = 0.7
#: Windows are believed to tell who ends if they foretell one in so many of the ends.
BELIEVED = 2
#: A length beyond all that were seen is at most so many mean lengths longer.
LONGEST_TAIL = 20
#: Rehearsals that the statistics of a run list.
MOST_LISTED = 1000
#: First random number of every run.
SEED = 0x9E3779B97F4A7C15
