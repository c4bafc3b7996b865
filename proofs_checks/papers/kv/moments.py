"""Rounds of runs of Algorithm 2, with the optimum from the state it has reached."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from formulations.hindsight_latency import Convention, LatencyProblem
from proofs_checks.claim import Context
from proofs_checks.evidence import Data
from proofs_checks.papers.kv.model import (
    Jobs,
    algorithm,
    from_data,
    jobs,
    least_latency,
    optima,
    prefix,
    random_problem,
    running_loads,
    selected,
    shortest_first,
)
from proofs_checks.papers.kv.off_couple import Coupling, off_couple


@dataclass(frozen=True)
class Moment:
    """A run of Algorithm 2 at round ``now``, and the optimum from the state it has reached.

    Parameters
    ----------
    problem : LatencyProblem
        Requests with a common prompt.
    now : int
        ``t``.
    """

    problem: LatencyProblem
    now: int

    @cached_property
    def data(self) -> Jobs:
        """The requests as the memory sees them."""
        return jobs(self.problem)

    @cached_property
    def online(self) -> list[int]:
        """Starts of Algorithm 2."""
        return algorithm(self.data)

    @cached_property
    def offline(self) -> list[tuple[int, ...]]:
        """All optima from the state of Algorithm 2 at ``now``: OFF may be any of them."""
        return optima(self.data, prefix(self.online, self.now), self.now, self.online)

    @cached_property
    def compensated(self) -> int:
        """``CP_{t+1}`` of this path: what the decision of Algorithm 2 at ``now`` costs OFF."""
        later = self.now + 1
        after = least_latency(self.data, prefix(self.online, later), later, self.online)
        return after - sum(self.offline[0])

    def started(self, starts: Sequence[int]) -> set[int]:
        """Return the requests that start at ``now``."""
        return {job for job, start in enumerate(starts) if start == self.now}

    def pending(self, starts: Sequence[int], now: int) -> int:
        """Return how many requests have arrived by round ``now`` and not completed."""
        columns = zip(self.data.arrival, starts, self.problem.output.tolist(), strict=True)
        return sum(arrival <= now < start + output for arrival, start, output in columns)

    def coupled(self, offline: Sequence[int]) -> Coupling:
        """Return the schedule of Off-Couple against an optimum."""
        online = [start if start <= self.now else None for start in self.online]
        return off_couple(self.problem, online, offline, self.now)

    def coupled_by_text(self, offline: Sequence[int]) -> Coupling:
        """Return the same by the text of Algorithm 3, apart from `off_couple`."""
        starts = prefix(self.online, self.now + 1)
        outputs = self.problem.output.tolist()
        t_hat = max((offline[job] + outputs[job] for job in starts), default=self.now + 1)
        now, jobs_left = self.now, set(range(len(outputs))) - set(starts)
        while jobs_left:
            now += 1
            running = running_loads(self.data, starts, now)
            copied = [job for job in jobs_left if now >= t_hat and offline[job] == now]
            running += [self.data.load(job) for job in copied]
            behind = [job for job in jobs_left if offline[job] <= now and job not in copied]
            behind.sort(key=lambda job: shortest_first(self.data, job))
            loads = [self.data.load(job) for job in behind]
            positions = selected(self.data.memory, running, loads)
            starts |= dict.fromkeys([*copied, *(behind[k] for k in positions)], now)
            jobs_left -= set(starts)
        return Coupling(tuple(starts[job] for job in range(len(outputs))), t_hat)


def small_problems(
    context: Context, count: int, convention: Convention | None = None
) -> Iterator[LatencyProblem]:
    """Draw instances of 4 requests with a prompt of 1 that arrive in rounds 0 to 3."""
    for _ in range(count):
        yield random_problem(
            context.rng, least=4, most=4, memory=6, prompt=1, rounds=3, convention=convention
        )


#: Convention, M, and the last arrival: where a few hundred draws meet what Lemma 5.4 rules out.
FILLING = ((Convention.CLOSED, 6, 4), (Convention.PRINTED, 6, 4), (Convention.HALF_OPEN, 8, 6))


def filling_problems(
    context: Context, count: int
) -> Iterator[tuple[Convention, int, tuple[int, ...], tuple[int, ...]]]:
    """Draw convention, M, outputs and arrivals of 4 requests, s = 1, under A, B and C in turn."""
    for draw in range(count):
        convention, memory, last = FILLING[draw % 3]
        least = 1 + (convention is not Convention.CLOSED)
        longest = memory - 1 + (convention is Convention.PRINTED)
        outputs = context.rng.integers(least, longest + 1, 4).tolist()
        arrivals = np.sort(context.rng.integers(0, last + 1, 4))
        yield convention, memory, tuple(outputs), tuple((arrivals - arrivals[0]).tolist())


def moments(
    context: Context, count: int, convention: Convention | None = None
) -> Iterator[Moment]:
    """Yield the rounds of `small_problems` whose runs are not optimal."""
    return rounds_to_see(small_problems(context, count, convention))


def rounds_to_see(problems: Iterable[LatencyProblem]) -> Iterator[Moment]:
    """Yield the rounds of runs that are not optimal; elsewhere there is nothing to see."""
    for problem in problems:
        data = jobs(problem)
        online = algorithm(data)
        if sum(online) > sum(data.arrival) and least_latency(data, known=online) < sum(online):
            yield from (Moment(problem, now) for now in range(max(online) + 1))


MADE = "every round of random runs of Algorithm 2 on 4 requests that are not optimal"


def draws(context: Context) -> int:
    """Return how many instances the rare failures need."""
    return context.choose(260, 1200, 30_000)


# The decomposition of the regret.
def read_common(data: Data) -> LatencyProblem:
    """Read a problem and refuse different prompts."""
    problem = from_data(data | {"requests": [row[:3] for row in data["requests"]]})
    if len(set(problem.prompt.tolist())) > 1:
        raise ValueError("prompts differ")
    return problem


FROM_STATE = ("a common prompt s", "no pausing", "OFF optimal from the state of Algorithm 2 at t")
PROOF = "KV-cache paper, proof of Theorem 5.3 (section 5.1)"
