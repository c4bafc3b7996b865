"""Networks of agents (section 4.3): Rybko–Stolyar in the fluid model, forks and joins in slots."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from proofs_checks.claim import Claims, Context, Kind, Mutation
from proofs_checks.evidence import Estimate, Findings, Outcome
from proofs_checks.papers.batching.model import sarathi
from proofs_checks.search import Domain
from proofs_checks.statistics import mean_estimate

CLAIMS = Claims()


#: Tokens of short and long tasks, (4.4) and (4.5), and the budget of both agents.
SHORT, LONG, BUDGET = 64, 544, 768
#: Numbers of tasks at the stages A@1, A@2, B@2, B@1: first and last stage of each type.
Levels = tuple[Fraction, Fraction, Fraction, Fraction]
_ZERO = Fraction(0)


@dataclass(frozen=True)
class RybkoStolyar:
    """Fluid model of two agents whose full batches take one slot.

    Parameters
    ----------
    rate : Fraction
        ``λ`` of either type.
    last_first : bool
        Whether agents give priority to the last stage of requests, else to the first stage.
    """

    rate: Fraction
    last_first: bool = True

    def slopes(self, levels: Levels) -> Levels:
        """Return the growth rate of the tasks of each stage."""
        fast, slow = Fraction(BUDGET, SHORT), Fraction(BUDGET, LONG)
        begun_a, ended_b = self._agent(levels[0], levels[3], levels[2], fast, slow)
        begun_b, ended_a = self._agent(levels[2], levels[1], levels[0], fast, slow)
        # Each agent's inflow is the other agent's output; two iterations reach the fixed point.
        for _ in range(2):
            begun_a, ended_b = self._agent(levels[0], levels[3], begun_b, fast, slow)
            begun_b, ended_a = self._agent(levels[2], levels[1], begun_a, fast, slow)
        return (self.rate - begun_a, begun_a - ended_a, self.rate - begun_b, begun_b - ended_b)

    def _agent(
        self, first: Fraction, last: Fraction, coming: Fraction, fast: Fraction, slow: Fraction
    ) -> tuple[Fraction, Fraction]:
        """Return the rates at which an agent completes first and last tasks.

        ``coming`` is the arrival rate of last tasks.
        """
        if self.last_first:
            ended = slow if last else min(slow, coming)
            free = 1 - ended / slow
            return (free * fast if first else min(free * fast, self.rate)), ended
        begun = fast if first else min(fast, self.rate)
        free = 1 - begun / fast
        return begun, (free * slow if last else min(free * slow, coming))


def peaks(network: RybkoStolyar, start: Levels, most: int) -> Iterator[Levels]:
    """Return the breakpoints of the path until all levels are 0 or a maximum number is reached."""
    levels = start
    yield levels
    for _ in range(most):
        slopes = network.slopes(levels)
        ends = [-x / slope for x, slope in zip(levels, slopes, strict=True) if slope < 0 and x > 0]
        if not any(levels) or not ends:
            return
        lasts = min(ends)
        moved = [x + slope * lasts for x, slope in zip(levels, slopes, strict=True)]
        levels = (moved[0], moved[1], moved[2], moved[3])
        yield levels


@CLAIMS.remark(
    "batching.rybko-stolyar",
    Mutation("the priorities exchanged", last_first=False),
    Mutation("a virtual station of tasks of 500 tokens", last=500),
    kind=Kind.IDENTITY,
)
def _rybko_check(context: Context, *, last_first: bool = True, last: int = LONG) -> Outcome:
    """A network that work conservation does not stabilise.

    Source: throughput paper, section 4.3, (4.4), (4.5) and Figure 8
    Statement: In the Rybko–Stolyar network with b = 768, t = 1 and the means (4.4), (4.5), serving
        the last stages first is unstable at ρ = 0.9; with the priorities reversed it is stable.
    Formula: ρ = 0.9: tokens → ∞ with one priority, positive recurrent with the other
    Assumes: ρ is the load of each agent; the fluid model
    Summary: A backlog x at A@1 alone becomes λ/(768/544 − λ)·x at B@2 alone, exactly: 4.135 times
        as much at a load of 0.9, and more than before iff 2·544·λ > 768, a load of 19/34 = 0.5588.
        With first stages first all drains at every load tried.
    Reading: "Total load 0.9" as that of each agent: as the sum of both, 0.45 each, the network is
        stable.
    """
    percents = context.choose(range(40, 97, 4), range(36, 98), range(31, 98))
    loads = [Fraction(percent, 100) for percent in percents]

    def rate_of(load: Fraction) -> Fraction:
        return load * BUDGET / (SHORT + LONG)

    def half_cycle(load: Fraction) -> bool:
        """From x tasks at A@1 alone to g·x tasks at B@2 alone."""
        rate = rate_of(load)
        growth = rate / (Fraction(BUDGET, last) - rate)
        start = (Fraction(1), _ZERO, _ZERO, _ZERO)
        path = list(peaks(RybkoStolyar(rate, last_first), start, 6))
        alone = [levels for levels in path[1:] if levels[0] == levels[1] == levels[3] == 0]
        return bool(alone) and alone[0][2] == growth and (growth > 1) == (load > Fraction(19, 34))

    def reversed_drains(load: Fraction) -> bool:
        start = (Fraction(1), Fraction(1), Fraction(2), Fraction(1))
        *_, end = peaks(RybkoStolyar(rate_of(load), not last_first), start, 200)
        return not any(end)

    domain = Domain(f"loads {loads[0]} to {loads[-1]} of either agent, in fractions", loads)
    grown = domain.examine(
        "last stages first: a backlog comes back λ/(768/544 − λ) times as large",
        half_cycle
    )  # fmt: skip
    drained = domain.examine("first stages first: everything drains", reversed_drains)
    factor = rate_of(Fraction(9, 10)) / (Fraction(BUDGET, LONG) - rate_of(Fraction(9, 10)))
    numbers = {
        "growth at a load of 0.9": float(factor),
        "load with growth 1": float(Fraction(19, 34)),
    }
    return Findings(grown, drained, numbers=numbers)


def _left_of_fork(
    rng: np.random.Generator, load: Fraction, backlog: int, slots: int, *, joins: bool
) -> float:
    """Return the share of an initial backlog at agent 0 that is left in the network, in tokens.

    Agents have b = 8 and t = 1; sizes are geometric with mean 8 tokens at every agent.
    """
    means, budget = ((4, 4), (2, 6), (6, 2), (5, 3)), 8
    queues: list[list[list[int]]] = [[] for _ in means]
    half: set[int] = set()

    def add(agent: int, request: int) -> None:
        p, d = (int(rng.geometric(1 / m)) for m in means[agent])
        queues[agent].append([p, d, request])

    for request in range(backlog):
        add(0, request)
    born = backlog
    for _ in range(slots):
        done: list[tuple[int, int]] = []
        for agent, queue in enumerate(queues):
            batch = sarathi(tuple((p, d) for p, d, _ in queue), budget)
            for task, (x, y) in zip(queue, batch, strict=True):
                task[0], task[1] = task[0] - x, task[1] - y
            done += [(agent, task[2]) for task in queue if task[1] == 0]
            queues[agent] = [task for task in queue if task[1] > 0]
        for agent, request in done:
            if agent == 0:
                add(1, request)
                add(2, request)
            elif agent < 3 and joins and request not in half:
                half.add(request)
            elif agent < 3:
                half.discard(request)
                add(3, request)
        for _ in range(rng.poisson(float(load))):
            add(0, born)
            born += 1
    left = sum(p + d for queue in queues for p, d, _ in queue)
    return left / (backlog * sum(map(sum, means)))


@CLAIMS.result(
    "batching.conjecture1",
    Mutation("a load of 3/2", load=Fraction(3, 2)),
    Mutation("two tasks for agent 3 of every request", joins=False),
    kind=Kind.STATISTICAL,
)
def _fork_check(
    context: Context, *, load: Fraction = Fraction(4, 5), joins: bool = True
) -> Outcome:
    """Forks and joins.

    Source: throughput paper, Conjecture 1 (section 4.3), (4.3)
    Statement: If λ(m_p^j + m_d^j) < b^j/t_b^j for each of four agents, of which 0 forks into 1 and
        2, which join at 3, the chain is positive recurrent.
    Formula: (4.3)  ⇒  positive recurrent
    Assumes: work-conserving (K_p, K_d)-FCFS algorithms, here Sarathi-Serve
    Summary: Evidence, no proof: from a backlog at agent 0, at a load of 0.8 of every agent, less
        is left after twenty slots per request of the backlog. The paper says that it is easy
        without agent 3.
    """
    runs, backlog = context.choose(8, 12, 24), context.choose(24, 40, 150)
    # The backlog, 32 tokens per request, passes agents of 8 tokens per slot with a fifth spare.
    slots = 20 * backlog
    left = [_left_of_fork(context.rng, load, backlog, slots, joins=joins) for _ in range(runs)]
    estimate: Estimate = mean_estimate(
        f"share of the backlog's tokens left at load {load}", left, "upper end below 1",
        lambda low, high: high < 1,
    )  # fmt: skip
    return Findings(estimates=(estimate,))
