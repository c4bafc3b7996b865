"""Lemmas 5.5 and 5.6: bursts that the optimum outwaits with what Algorithm 2 has started.

Slots are those of `proofs_checks.papers.kv.model`: a request occupies so many consecutive slots
from its start on, under convention C the next ones.
"""

from dataclasses import dataclass, replace

from formulations.hindsight_latency import Convention, LatencyProblem
from proofs_checks.evidence import Data
from proofs_checks.papers.kv.model import (
    algorithm,
    jobs,
    optima,
    problem_of,
)


@dataclass(frozen=True)
class Burst:
    """Some requests in round 0, then short ones at equal distances, then none.

    Parameters
    ----------
    convention : Convention
        What a request occupies.
    memory, prompt : int
        ``M`` and ``s`` [tokens].
    present : tuple of int
        Outputs of the requests that are there in round 0; the first is the one looked at.
    output, number : int
        Output of the short ones, and how many come at a time.
    gap, period : int
        Round of the first, and rounds between them.
    length : int
        ``L``: how many times they come.
    """

    convention: Convention
    memory: int
    prompt: int
    present: tuple[int, ...]
    output: int
    number: int
    gap: int
    period: int
    length: int

    @property
    def problem(self) -> LatencyProblem:
        """The requests."""
        times = [
            self.gap + self.period * k for k in range(self.length) for _ in range(self.number)
        ]
        outputs = [*self.present, *[self.output] * len(times)]
        arrivals = [*[0] * len(self.present), *times]
        prompts = [self.prompt] * len(outputs)
        return problem_of(self.memory, prompts, outputs, self.convention, arrivals)

    def starts(self) -> set[int]:
        """Return the rounds in which optimal schedules start the first request."""
        return {schedule[0] for schedule in optima(jobs(self.problem))}

    @property
    def last(self) -> int:
        """Round of the last arrival."""
        return self.gap + self.period * (self.length - 1)

    def to_data(self) -> Data:
        """Return it as plain data."""
        return vars(self) | {"convention": self.convention.value, "present": list(self.present)}


def burst_of(data: Data) -> Burst:
    """Read a burst; refuse one that is too large to be solved here, or none."""
    burst = Burst(
        **data | {"convention": Convention(data["convention"]), "present": tuple(data["present"])}
    )
    small = len(burst.present) + burst.length * burst.number <= 8
    if not small or min(burst.number, burst.gap, burst.period) < 1 or burst.length < 3:
        raise ValueError("no burst")
    return burst


def verify(data: Data) -> str | None:
    """Check that the optimum outwaits the burst, for three lengths of it."""
    burst = burst_of(data)
    if any(burst.prompt + output > burst.memory for output in (*burst.present, burst.output)):
        return None
    if algorithm(jobs(burst.problem))[0] != 0:
        return None
    shown = []
    for length in range(burst.length - 2, burst.length + 1):
        case = replace(burst, length=length)
        starts = case.starts()
        if min(starts) < case.last:
            return None
        shown.append(f"L = {length}: {min(starts) + burst.present[0]}")
    return (
        f"convention {burst.convention.value}, M = {burst.memory}, s = {burst.prompt}: outputs "
        f"{list(burst.present)} wait in round 0, Algorithm 2 starts the first; then L times "
        f"{burst.number} of output {burst.output}, from round {burst.gap} on, every "
        f"{burst.period} rounds, then none for a while. Least t̂ − t: {', '.join(shown)}"
    )


def verify_queue(data: Data) -> str | None:
    """Check the same where at least two others wait in round 0."""
    return verify(data) if len(data["present"]) >= 3 else None


#: Hypotheses of both lemmas.
ARRIVALS = ("arrivals per round i.i.d. within [0, B]", "outputs i.i.d.")
