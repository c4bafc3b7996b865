"""Equation (3) and appendix C: the cluster snapshot, the two-stage estimate, and refreshes."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import combinations_with_replacement, product

import numpy as np

from bfio.prediction.predictor import Estimates, expected_steps
from bfio.step.two_stage.heuristic import TwoStageParameters, two_stage_reference
from proofs_checks.claim import Claims, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Outcome, dismiss_if, verifier
from proofs_checks.papers.route.br0 import f_score
from proofs_checks.runs import imbalance
from proofs_checks.search import examine

CLAIMS = Claims()


@dataclass(frozen=True)
class Remaining:
    """A law of the remaining steps of a request, on 1, 2, ..., and a window.

    Parameters
    ----------
    weights : tuple of int
        Proportional to the probabilities of 1, 2, ... steps.
    look_ahead : int
        ``H``.
    """

    weights: tuple[int, ...]
    look_ahead: int

    def chance(self, holds: Callable[[int], bool]) -> Fraction:
        """Return the probability of a set of remaining steps."""
        met = sum(w for r, w in enumerate(self.weights, 1) if holds(r))
        return Fraction(met, sum(self.weights))

    def outlasts(self, steps: int) -> Fraction:
        """Return ``P(R > steps)``."""
        return self.chance(lambda r: r > steps)

    def mean(self, value: Callable[[int], int]) -> Fraction:
        """Return the mean of a function of the remaining steps."""
        total = sum(w * value(r) for r, w in enumerate(self.weights, 1))
        return Fraction(total, sum(self.weights))

    @property
    def estimand(self) -> Fraction:
        """Equation (4): ``y = E min(R, H)``."""
        return self.mean(lambda r: min(r, self.look_ahead))

    def stages(self) -> tuple[Fraction, Fraction]:
        """Return p and μ of (5); μ is 0 if p is 0."""
        p = self.chance(lambda r: r <= self.look_ahead)
        within = self.mean(lambda r: r if r <= self.look_ahead else 0)
        return p, within / p if p else Fraction(0)


#: Longest remaining time of `laws`, and largest weight: quick, normal, deep.
_SIZES = ((4, 2), (5, 3), (6, 4))


def laws(context: Context) -> Iterator[Remaining]:
    """Yield all laws on 1..n with weights up to a size, with all windows 1..n."""
    longest, most = context.choose(*_SIZES)
    for weights in product(range(most + 1), repeat=longest):
        if any(weights):
            for look_ahead in range(1, longest + 1):
                yield Remaining(weights, look_ahead)


def _made(context: Context) -> str:
    longest, most = context.choose(*_SIZES)
    return (
        f"all laws on 1..{longest} with integer weights 0..{most}, all windows H = 1..{longest}, "
        "in fractions"
    )


# Equations (4) to (6).
@CLAIMS.formula(
    "route.eq5",
    Mutation("H + 1 in place of H", more=1),
    Mutation("clipped to [2, H]", clipped=False),
    kind=Kind.IDENTITY,
)
def _composite_check(context: Context, *, more: int = 0, clipped: bool = True) -> Outcome:
    """The two-stage estimate.

    Source: BalanceRoute paper, appendix C.1, eq. (4) to (6)
    Statement: The expected in-window contribution E min(R, H) is p·μ + (1 − p)·H, p = P(R ≤ H), μ
        = E[R | R ≤ H]; the composite is this, clipped to [1, H].
    Formula: y = E min(R, H) = p·μ + (1 − p)·H,  1 ≤ y ≤ H
    Assumes: R ≥ 1 remaining steps; p and μ exact
    Summary: With exact stages nothing is clipped; ŷ is p·(H − μ) below H, so it falls to μ as p
        grows.
    Reading: the text at hand has lost its formulas: (4) to (7) are those of the words.
    """

    def decomposes(law: Remaining) -> bool:
        p, mean = law.stages()
        return p * mean + (1 - p) * (law.look_ahead + more) == law.estimand

    def within(law: Remaining) -> bool:
        p, mean = law.stages()
        value = p * mean + (1 - p) * law.look_ahead
        near = abs(law.look_ahead - value) == p * (law.look_ahead - mean)
        return near and (1 if clipped else 2) <= value <= law.look_ahead

    def by_toolkit(law: Remaining) -> bool:
        p, mean = law.stages()
        stated = Estimates(np.array([float(p)]), np.array([float(mean)]))
        return abs(float(expected_steps(stated, law.look_ahead)[0]) - float(law.estimand)) < 1e-9

    return (
        examine("E min(R, H) = p·μ + (1 − p)·H", _made(context), laws(context), decomposes),
        examine("it lies in [1, H], at p·(H − μ) below H", _made(context), laws(context), within),
        examine("the toolkit's (6) gives it", _made(context), laws(context), by_toolkit),
    )


# Equation (7).
def profile(size: int, steps: Fraction, look_ahead: int, *, late: bool = False) -> list[int]:
    """Equation (7): ``s + a + h`` while h < ŷ, for h = 0..H − 1."""
    return [size + h if h < steps or (late and h == steps) else 0 for h in range(look_ahead)]


@CLAIMS.formula("route.eq7", Mutation("h ≤ ŷ", late=True), kind=Kind.IDENTITY)
def _profile_check(context: Context, *, late: bool = False) -> Outcome:
    """The projected contribution.

    Source: BalanceRoute paper, appendix C.1, eq. (7)
    Statement: An active request contributes its size, one token more each step, and nothing once
        it has departed within the window.
    Formula: w(h) = (s + a + h)·1{h < y}, h = 0..H − 1
    Assumes: remaining steps known
    Summary: With ŷ = min(R, H) it is the load itself.
    """
    most = context.choose(4, 6, 10)
    cases = list(product(range(1, most), range(1, most), range(1, most)))
    return examine(
        "with the remaining steps known, (7) is the load of the request in the window",
        f"all sizes s + a, remaining steps and windows below {most}",
        cases,
        lambda size, remaining, window: (
            profile(size, Fraction(remaining), window, late=late)
            == [size + h if h + 1 <= remaining else 0 for h in range(window)]
        ),
    )


def mean_profile(law: Remaining, size: int) -> list[Fraction]:
    """Return the expected load of a request at h = 0..H − 1."""
    return [(size + h) * law.outlasts(h) for h in range(law.look_ahead)]


@verifier
def verify_profile(weights: list[int], look_ahead: int, size: int) -> str:
    """Compare the profile projected from y with the expected profile."""
    law = Remaining(tuple(weights), look_ahead)
    dismiss_if(law.look_ahead < 1 or size < 1 or min(law.weights) < 0 or not any(law.weights))
    shown, mean = profile(size, law.estimand, law.look_ahead), mean_profile(law, size)
    dismiss_if(shown == mean)
    return (
        f"s + a = {size}, R = 1, 2, ... with weights {list(law.weights)}, H = {law.look_ahead}: "
        f"y = {law.estimand}, (7) gives {shown}, the expected loads are {list(map(str, mean))}"
    )


@CLAIMS.own(
    "route.eq7-mean",
    Mutation("remaining steps known", known=True),
    Mutation("one step more in the correction", until=1),
    defect=Defect.INFERENCE,
    verify=verify_profile,
)
def _mean_check(context: Context, *, known: bool = False, until: int = 0) -> Outcome:
    """A projected profile is no expected profile.

    Source: BalanceRoute paper, appendix C.1, on what the score consumes (our question)
    Statement: Projected from the expected in-window contribution y, (7) is the expected load at
        each step of the window.
    Formula: (s + a + h)·1{h < y} = (s + a + h)·P(R > h)
    Assumes: y = E min(R, H) exact
    Summary: A request that ends now or late, with equal chances, is projected to end in between: y
        tells how many steps are to be expected, not which.
    Reading: the paper says that y is all that the score reads, not that (7) is a mean.
    Correction: The expected number of steps is right: Σ_{h<H} P(R > h) = E min(R, H). The expected
        load at h is (s + a + h)·P(R > h).
    """
    cases = [law for law in laws(context) if not known or sum(map(bool, law.weights)) == 1]
    printed = context.refute(
        "(7) with ŷ = y is the expected load at every h", f"{_made(context)}; s + a = 1", cases,
        lambda law: {"weights": list(law.weights), "look_ahead": law.look_ahead, "size": 1}
    )  # fmt: skip
    corrected = examine(
        "the expected number of steps in the window is y: Σ_{h<H} P(R > h) = E min(R, H)",
        _made(context),
        laws(context),
        lambda law: (
            sum(map(law.outlasts, range(law.look_ahead + until)), Fraction(0)) == law.estimand
        ),
    )
    return printed, corrected


# The gate.
@CLAIMS.remark("route.gate", Mutation("a gate at 3/4", gate=Fraction(3, 4)))
def _gate_check(context: Context, *, gate: Fraction = Fraction(1, 2)) -> Outcome:
    """The gate at one half.

    Source: BalanceRoute paper, appendix C.2.3, stage-1 confidence gate
    Statement: Where p̂ < 1/2 the estimate is reset to H, at the natural decision boundary of the
        two stages.
    Formula: p < 1/2  ⇒  H = median of min(R, H),  H − y = p·(H − μ) ≤ (H − 1)/2
    Assumes: p and μ exact; H ≥ 2
    Summary: A closed gate replaces the mean of min(R, H) by its median, and errs to the late side
        only.
    Reading: what makes one half natural is ours to say; the paper argues by the sample that the
        regressor sees.
    """

    def errs_little(law: Remaining) -> bool:
        p, mean = law.stages()
        if p >= gate:
            return True
        error = law.look_ahead - law.estimand
        median = law.outlasts(law.look_ahead) > Fraction(1, 2)
        return error == p * (law.look_ahead - mean) and 2 * error <= law.look_ahead - 1 and median

    return examine(
        "a closed gate sets ŷ = H, the median of min(R, H), at most (H − 1)/2 above its mean",
        _made(context),
        laws(context),
        errs_little,
        lambda law: law.look_ahead > 1,
    )


# Appendix C.2.3: predictions between refreshes, and their floor.


# Refresh.
@verifier
def verify_decrement(remaining: int, look_ahead: int, elapsed: int) -> str:
    """Compare H minus the elapsed steps with the in-window contribution for known R."""
    dismiss_if(min(remaining, look_ahead, elapsed) < 1 or elapsed >= min(remaining, look_ahead))
    counted, actual = min(remaining, look_ahead) - elapsed, min(remaining - elapsed, look_ahead)
    dismiss_if(counted == actual)
    return (
        f"R = {remaining}, H = {look_ahead}: ŷ = {min(remaining, look_ahead)} at a refresh, "
        f"{counted} after {elapsed} token(s), while min(R, H) of the next {look_ahead} steps is "
        f"{actual}"
    )


@CLAIMS.remark(
    "route.refresh",
    Mutation("requests that end within the window", inside=True),
    Mutation("twice the shortfall in the correction", share=2),
    defect=Defect.HYPOTHESIS,
    verify=verify_decrement,
)
def _decrement_check(context: Context, *, inside: bool = False, share: int = 1) -> Outcome:
    """One step less per token.

    Source: BalanceRoute paper, appendix C.2.3, periodic refresh
    Statement: Between refreshes ŷ falls by one per generated token, since each elapsed step is one
        less step of in-window contribution.
    Formula: min(R − j, H) = min(R, H) − j
    Assumes: in-window: the next H steps, (4)
    Summary: The window moves on as well: a request that outlasts it contributes to all of its next
        H steps, and is projected to leave within it, up to q − 1 steps early.
    Reading: R known, so that nothing hangs on the predictor. In the toolkit a request that is
        predicted to outlast the window does so until it is predicted again.
    Correction: It holds for requests that end within the window, R ≤ H, or for the window that was
        current at the refresh. Else ŷ is min{j, R − H} too small after j tokens.
    """
    most = context.choose(6, 10, 20)
    cases = [
        (r, h, j)
        for r, h in product(range(1, most), repeat=2)
        for j in range(1, min(r, h))
        if not inside or r <= h
    ]
    domain = context.domain(
        f"remaining steps and windows below {most}, all elapsed steps before the end of either",
        cases,
    )
    printed = domain.refute("min(R − j, H) = min(R, H) − j")

    corrected = domain.examine(
        "min(R − j, H) = min(R, H) − j + min{j, (R − H)^+}: exact where R ≤ H",
        lambda r, h, j: min(r - j, h) - (min(r, h) - j) == share * min(j, max(0, r - h)),
    )
    return printed, corrected


# The floor.
def projected(remaining: int, told: int, refresh: int, floor: int) -> Iterator[int]:
    """Yield ŷ at each step of a request whose predictor always returns the same value.

    The predictor is queried at the start, after every ``refresh`` tokens, and if ŷ crosses the
    floor.
    """
    value = told
    for step in range(remaining):
        if step and step % refresh == 0:
            value = told
        elif step:
            value -= 1
            if value < floor:
                value = max(told, floor)
        yield max(value, floor)


@CLAIMS.remark("route.floor", Mutation("a floor of 0", floor=0))
def _floor_check(context: Context, *, floor: int = 1) -> Outcome:
    """The floor of one step.

    Source: BalanceRoute paper, appendix C.2.3, floor
    Statement: While a request is active ŷ is bounded below by 1, so that it is never dropped from
        the projection while it consumes work.
    Formula: y ≥ 1  ⇒  w(0) = s + a
    Assumes: crossing the floor triggers a refresh
    Summary: As it says; for predictions that are too early, too late or 0.
    """
    most = context.choose(6, 9, 14)
    cases = list(product(range(1, most), range(most), range(1, most)))
    return examine(
        "as long as a request runs, (7) gives it its load at h = 0",
        f"remaining steps, predictions and refreshes below {most}",
        cases,
        lambda remaining, told, refresh: all(
            profile(1, Fraction(value), 1) == [1]
            for value in projected(remaining, told, refresh, floor)
        ),
    )


#: Size now, ``s + a`` [tokens], and remaining steps of an active request.
Active = tuple[int, int]


@dataclass(frozen=True)
class Snapshot:
    """A snapshot of a cluster at one step: active requests, slots and waiting requests.

    Parameters
    ----------
    active : tuple of tuples
        Shape (G, requests): the active set of each worker.
    slots : tuple of int
        Slots of each worker.
    waiting : tuple of int
        Sizes of the waiting requests [tokens].
    """

    active: tuple[tuple[Active, ...], ...]
    slots: tuple[int, ...]
    waiting: tuple[int, ...]

    @property
    def free(self) -> list[int]:
        """Free slots of each worker."""
        return [slots - len(held) for slots, held in zip(self.slots, self.active, strict=True)]

    def loads(self, steps: int, *, late: bool = False) -> list[list[int]]:
        """Return the projected loads, shape (G, steps): the sums of (7) [tokens]."""
        profiles = (
            [profile(size, Fraction(left), steps, late=late) for size, left in held]
            for held in self.active
        )
        return [[sum(at) for at in zip([0] * steps, *rows, strict=True)] for rows in profiles]


def decoded(held: Sequence[Active], steps: int) -> Iterator[int]:
    """Yield a worker's load at each step, with its requests decoded one token at a time."""
    for _ in range(steps):
        yield sum(size for size, _ in held)
        held = [(size + 1, left - 1) for size, left in held if left > 1]


def admitted(snapshot: Snapshot, steps: int) -> frozenset[int]:
    """Return the positions of the waiting requests that BR-H sends to worker 0."""
    assignment = two_stage_reference(
        np.array(snapshot.free, dtype=np.int64),
        np.array(snapshot.loads(steps), dtype=np.int64),
        np.array([[size] * steps for size in snapshot.waiting], dtype=np.int64),
        tuple(range(steps, 0, -1)),
        TwoStageParameters(),
    )
    return frozenset(i for i, worker in enumerate(assignment) if worker == 0)


def random_snapshots(context: Context) -> Iterator[Snapshot]:
    """Yield random clusters of 2 or 3 workers."""
    rng = context.rng
    for _ in range(context.choose(60, 400, 10_000)):
        G, slots = int(rng.integers(2, 4)), int(rng.integers(1, 5))
        active = tuple(
            tuple(
                (int(rng.integers(1, 9)), int(rng.integers(1, 7)))
                for _ in range(int(rng.integers(0, slots + 1)))
            )
            for _ in range(G)
        )
        yield Snapshot(active, (slots,) * G, tuple(rng.integers(1, 12, 3).tolist()))


def small_snapshots() -> list[Snapshot]:
    """Return all small clusters of two workers with few requests."""
    held = [
        tuple(requests)
        for count in range(2)
        for requests in combinations_with_replacement(product((2, 5), (1, 3)), count)
    ]
    slots, waiting = list(product((1, 2), repeat=2)), [(1,), (1, 4), (4, 1)]
    cases = product(product(held, repeat=2), slots, waiting)
    return [Snapshot(active, most, sizes) for active, most, sizes in cases]


def _score_is_drop(snapshot: Snapshot, *, steps: int, late: bool) -> bool:
    """Compare F_H from the snapshot with the drop in imbalance of the decoded cluster."""
    projected = list(zip(*snapshot.loads(steps, late=late), strict=True))
    actual = list(zip(*(decoded(held, steps) for held in snapshot.active), strict=True))
    G = len(snapshot.slots)
    for g, added in product(range(G), snapshot.waiting):
        score = drop = 0
        for h, (shown, loads) in enumerate(zip(projected, actual, strict=True)):
            after = [load + added * (g == other) for other, load in enumerate(loads)]
            score += (steps - h) * f_score(added, max(shown) - shown[g], G)
            drop += (steps - h) * (imbalance(loads) - imbalance(after))
        if score != drop:
            return False
    return True


#: Omitted information, and the snapshot without it.
_PARTS: dict[str, Callable[[Snapshot], Snapshot]] = {
    "the other workers": lambda s: replace(s, active=s.active[:1], slots=s.slots[:1]),
    "the free slots": lambda s: replace(s, slots=()),
    "the sizes of active requests": lambda s: replace(s, active=_with(s, lambda r: (0, r[1]))),
    "their remaining steps": lambda s: replace(s, active=_with(s, lambda r: (r[0], 0))),
    "the sizes of waiting requests": lambda s: replace(s, waiting=(0,) * len(s.waiting)),
}


def _with(
    snapshot: Snapshot, change: Callable[[Active], Active]
) -> tuple[tuple[Active, ...], ...]:
    return tuple(tuple(map(change, held)) for held in snapshot.active)


def _is_needed(part: str, sent: dict[Snapshot, frozenset[int]]) -> bool:
    """Whether two snapshots that differ only in this part send different requests to worker 0."""
    without: dict[Snapshot, set[frozenset[int]]] = defaultdict(set)
    for snapshot, requests in sent.items():
        without[_PARTS[part](snapshot)].add(requests)
    return any(len(different) > 1 for different in without.values())


@CLAIMS.formula(
    "route.eq3",
    Mutation("requests kept in their active set for a step after they end", late=True),
    Mutation("a window of one step, which no prediction can change", steps=1),
)
def _snapshot_check(context: Context, *, late: bool = False, steps: int = 3) -> Outcome:
    """The snapshot of the cluster.

    Source: BalanceRoute paper, eq. (3) (section 5) and what section 5.1 says of it
    Statement: The rule of BR-H runs once the snapshot is there: active sets, capacities and the
        waiting set. A router without state cannot serve it, since the score needs a view across
        workers.
    Formula: ({A_g, cap_g}_{g = 1..G}, R_wait) determines L_g(h), m_g(h) and F_H
    Assumes: remaining steps in the window known
    Summary: The snapshot suffices, and none of its parts can be spared: a worker gets other
        requests if another worker alone changes.
    Reading: the text at hand has lost the formula: the parts are those that sections 2.2, 5 and
        5.1 name. What is added counts as constant over the window, as in (2).
    """
    sent = {snapshot: admitted(snapshot, steps) for snapshot in small_snapshots()}
    return (
        examine(
            "F_H with α = 1, β = G, from what the snapshot projects, is the drop in the "
            "discounted imbalance of the decoded cluster",
            "random clusters of 2 or 3 workers, three sizes that wait, windows of three steps",
            random_snapshots(context),
            partial(_score_is_drop, steps=3, late=late),
        ),
        examine(
            "without this part it is not determined which requests BR-H sends to a worker",
            f"{', '.join(_PARTS)}; all of {len(sent):,} clusters of two workers that differ "
            "in this part alone",
            _PARTS,
            lambda part: _is_needed(part, sent),
        ),
    )
