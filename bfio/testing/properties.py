"""What the papers and the engine ask of a policy, as properties of any policy.

A check draws instances, asks a policy that is made anew for each, and raises `Refuted` with the
smallest instance that it finds. Equal seeds draw equal instances.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import partial, update_wrapper
from inspect import cleandoc
from typing import Any, NoReturn, TypeAlias

import numpy as np
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.errors import Flaky, Unsatisfiable

from bfio.decode.cluster import Cluster
from bfio.decode.features.ties import OF_WORKERS, in_places
from bfio.decode.policy import Policy
from bfio.decode.policy_registry import check_policy, choose
from bfio.decode.replay import run_violations
from bfio.decode.state import DecodeState
from bfio.step.solve import solve_step
from bfio.testing.balance import distance_bounds, gap, imbalance, improvement_ratio
from bfio.testing.instances import decode_states, levelling_steps, rounds
from bfio.testing.runs import Scenario, plain_scenarios
from bfio.testing.states import contract_violation, in_words, loads_after
from bfio.workloads import Workload, is_overloaded
from formulations.arrays import integer
from formulations.errors import InputError, check_kind, use_one_of
from formulations.named_objects import users_code
from formulations.step import Objective, StepProblem

#: A name, a function of the state, an object, or a class of such objects.
AnyPolicy: TypeAlias = str | Policy | type[Policy]
#: How often a policy is asked about one state to see whether it answers alike.
_TIMES = 2
#: Enough requests for nearly every counterexample.
_FEW = 5


class Refuted(AssertionError):  # noqa: N818  # the word of the claims
    """Raised by a check: the message holds the theorem, its hypotheses, and the instance."""


@dataclass(frozen=True)
class Property:
    """A property in words: its name, where it comes from, and what it takes for granted."""

    name: str
    source: str
    assumes: str


class _Broken(Exception):  # noqa: N818  # a finding, turned into Refuted at the end
    """A failing instance; its text is put together at the end, as shrinking meets many."""

    def __init__(
        self,
        size: int,
        instance: str,
        did: str,
        right: Callable[[], str],
        instead: Property | None,
    ) -> None:
        self.size, self.instance, self.did, self.right = size, instance, did, right
        #: The property that is broken, if it is not the one that is checked.
        self.instead = instead


class _Made:
    """A policy that is made anew for each instance, with its name and its look-ahead."""

    def __init__(self, policy: AnyPolicy) -> None:
        check_policy(policy)
        self._policy = policy
        self.chosen = choose(policy if isinstance(policy, str) else self.new())
        self.name = self.chosen.text
        self.look_ahead = self.chosen.look_ahead()

    def new(self) -> Policy:
        """Return a policy without memory of earlier instances."""
        if isinstance(self._policy, str):
            return self.chosen.make()
        return self._policy() if isinstance(self._policy, type) else deepcopy(self._policy)

    def ask(self, state: DecodeState) -> Any:
        """Return the answer of a new policy to a copy of a state; break if it raises an error."""
        seen = deepcopy(state)
        try:
            with users_code(self.name):
                answer = self.new()(seen)
        except InputError as error:
            _break(state, error.what, "an answer, without changing the state", CONTRACT)
        for field in fields(DecodeState):
            before, after = getattr(state, field.name), getattr(seen, field.name)
            if isinstance(before, np.ndarray) and not np.array_equal(before, after):
                did = f"changed state.{field.name} from {before.tolist()} to {after.tolist()}"
                _break(state, did, "an answer, without changing the state", CONTRACT)
        return answer

    def valid(self, state: DecodeState) -> list[int | None]:
        """Return the answer to a state as a list; break if it is none."""
        answer = self.ask(state)
        if wrong := contract_violation(state, answer):
            last = state.num_workers - 1
            right = (
                f"for each waiting request ({state.num_waiting} here) None or a worker "
                f"({f'0 to {last}' if last else '0'}), within the free slots"
            )
            _break(state, f"{_told(answer)}: {wrong}", right, CONTRACT)
        return list(answer)


def _told(answer: object) -> str:
    values = answer.tolist() if isinstance(answer, np.ndarray) else answer
    text = str(list(values)) if isinstance(values, tuple) else repr(values)
    return f"answered {text}"


def _break(
    state: DecodeState,
    did: str,
    right: str | Callable[[], str],
    instead: Property | None = None,
) -> NoReturn:
    told = right if callable(right) else lambda: right
    raise _Broken(state.num_waiting, in_words(state), did, told, instead)


def _states(made: _Made, **widths: Any) -> st.SearchStrategy[DecodeState]:
    """Return small states with the window that a policy needs."""
    return decode_states(max_workers=3, max_waiting=6, horizon=made.look_ahead, **widths)


def _check(
    stated: Property,
    policy: _Made,
    among: st.SearchStrategy[Any],
    verify: Callable[[Any], None],
    examples: int,
    seed: int,
) -> None:
    """Verify drawn instances; raise Refuted with the smallest that breaks the property."""
    check_kind(among, st.SearchStrategy, "among", "a strategy, as of bfio.testing")
    integer(examples, "examples", minimum=1)
    integer(seed, "seed")
    found: list[_Broken] = []
    last: _Broken | None = None

    @seeded(seed)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )
    @given(among)
    def trial(instance: Any) -> None:
        try:
            verify(instance)
        except _Broken as broken:
            assume(last is None or broken.size < last.size)
            found.append(broken)
            raise

    # Where shrinking gets stuck at many requests, draw again for fewer.
    while last is None or last.size > _FEW:
        try:
            trial()
        except Unsatisfiable:
            if last is not None:
                break
            what = f"no instance meets what {stated.name} assumes: {stated.assumes}"
            raise InputError("among", what, "draw such instances") from None
        except (_Broken, Flaky) as error:
            # A policy that draws from elsewhere may answer rightly when asked again.
            if not found:
                raise
            by_size = min(found, key=lambda each: (each.size, len(each.instance)))
            last = error if isinstance(error, _Broken) else by_size
        else:
            break
    if last is None:
        return
    broken = last.instead or stated
    lines = {
        "source": broken.source,
        "assumes": broken.assumes,
        "instance": last.instance,
        "policy": last.did,
        "right": last.right(),
    }
    told = "\n".join(f"  {word:<9} {text}" for word, text in lines.items())
    where = "" if broken is stated else f" (found while checking {stated.name})"
    raise Refuted(f"{policy.name} breaks {broken.name}{where}\n{told}") from None


_PARAMETERS = """\
Parameters
----------
policy : str, callable or class
    The policy.
among : SearchStrategy, optional
    Instances to draw: states, by default of `decode_states`, or whole runs, by default of
    `plain_scenarios`; `scenarios` has every feature of the engine.
examples, seed : int
    Number of instances, and seed.

"""


def _checks(
    stated: Property, default: Callable[[_Made], st.SearchStrategy[Any]]
) -> Callable[[Callable[[_Made, Any], None]], Callable[..., None]]:
    """Turn what verifies one instance into a check of a policy on drawn instances."""

    def of(verify: Callable[[_Made, Any], None]) -> Callable[..., None]:
        def check(
            policy: AnyPolicy,
            among: st.SearchStrategy[Any] | None = None,
            *,
            examples: int = 200,
            seed: int = 0,
        ) -> None:
            made = _Made(policy)
            drawn = default(made) if among is None else among
            _check(stated, made, drawn, partial(verify, made), examples, seed)

        update_wrapper(check, verify, ("__name__", "__qualname__"))
        told, raises, errors = cleandoc(verify.__doc__ or "").partition("Raises\n")
        check.__doc__ = f"{told}{_PARAMETERS}{raises}{errors}"
        # Its signature is its own.
        del check.__wrapped__  # type: ignore[attr-defined]
        return check

    return of


CONTRACT = Property(
    "the contract of policies",
    "bfio.decode.policy",
    "nothing; policies made anew answer equal states, with equal generators, alike",
)


@_checks(CONTRACT, _states)
def check_contract(made: _Made, state: DecodeState) -> None:
    """Check that answers are valid, reproducible, and leave the state as it is.

    A policy may remember what it was asked before, in attributes of its own. So each question goes
    to a policy made anew, and only memory or chance outside of it is found.

    Raises
    ------
    Refuted
        If an answer has not one entry per waiting request, names no worker, takes more than the
        free slots, comes with a changed state or an error, or differs from that of another policy
        made anew.
    """
    answer = made.valid(state)
    for _ in range(_TIMES):
        if (again := made.valid(state)) != answer:
            did = f"{_told(answer)}, asked again {again}"
            _break(
                state, did, "the same answer of a policy made anew; state.rng is the only chance"
            )


CONSERVING = Property(
    "work conservation",
    "BF-IO paper, section 4: (IO) admits U = min(N, sum of free slots) requests",
    "memory is unlimited",
)


@_checks(CONSERVING, _states)
def check_work_conserving(made: _Made, state: DecodeState) -> None:
    """Check that no slot stays free while a request waits.

    Raises
    ------
    Refuted
        If fewer requests start than could.
    """
    answer = made.valid(state)
    admitted, most = len(answer) - answer.count(None), state.num_admissible
    if admitted < most:
        _break(state, f"{_told(answer)}: {admitted} start", f"{most} start")


MEMORY = Property(
    "memory",
    "docs/cluster.md: a worker refuses a request that does not fit",
    "request i needs state.needs[i], worker g has state.room[g] free [tokens]; the policy "
    "promises to start nothing that the engine would refuse",
)


@_checks(MEMORY, partial(_states, memory=True))
def check_memory(made: _Made, state: DecodeState) -> None:
    """Check that what starts fits into memory.

    The engine refuses what does not fit, so that a policy may leave this to it.

    Raises
    ------
    Refuted
        If the requests given to a worker need more than its free memory.
    """
    answer = made.valid(state)
    for worker, room in enumerate(state.room.tolist()):
        needed = sum(
            need for need, g in zip(state.needs.tolist(), answer, strict=True) if g == worker
        )
        if needed > max(room, 0):
            did = f"{_told(answer)}: worker {worker} needs {needed} and has {room}"
            _break(state, did, f"at most {room} on worker {worker}; others wait")


TIES = Property(
    "ties",
    "CONTRIBUTING.md: oldest request first, then lowest worker",
    "requests are equal in size, window and need, workers in all that a state tells of them",
)


@st.composite
def _twins(draw: st.DrawFn, made: _Made) -> DecodeState:
    """Draw a state of small numbers in which workers occur several times."""
    tokens, sizes = st.integers(0, 3), st.integers(1, 3)
    state = draw(_states(made, tokens=tokens, sizes=sizes))
    workers = st.lists(st.integers(0, state.num_workers - 1), min_size=1, max_size=4)
    return in_places(state, np.array(draw(workers)))


@_checks(TIES, _twins)
def check_ties(made: _Made, state: DecodeState) -> None:
    """Check that no equal goes before the first of its equals.

    Raises
    ------
    Refuted
        If a request starts and an equal, older one waits; or if a worker is given requests and an
        equal one of lower index none.
    """
    answer = made.valid(state)
    kinds = [
        (size, need, *row)
        for size, need, row in zip(
            state.sizes.tolist(),
            state.needs.tolist(),
            state.contributions.tolist(),
            strict=True,
        )
    ]
    for i, later in enumerate(answer):
        equals = [j for j in range(i) if kinds[j] == kinds[i] and answer[j] is None]
        if later is not None and equals:
            did = f"{_told(answer)}: request {i} starts, its equal {equals[0]} waits"
            _break(state, did, f"request {equals[0]} starts first: it is older")
    columns = [np.asarray(getattr(state, name)).tolist() for name in OF_WORKERS
               if getattr(state, name) is not None]  # fmt: skip
    workers = list(zip(*columns, strict=True))
    for g in {worker for worker in answer if worker is not None}:
        equals = [h for h in range(g) if workers[h] == workers[g] and h not in answer]
        if equals:
            did = f"{_told(answer)}: worker {g} is taken, its equal {equals[0]} is not"
            _break(state, did, f"worker {equals[0]}: it has the lower index")


_MEASURES = {Objective.IMBALANCE: imbalance, Objective.GAP: gap}


def check_smax_balance(
    policy: AnyPolicy,
    among: st.SearchStrategy[DecodeState] | None = None,
    *,
    measure: str = "imbalance",
    examples: int = 200,
    seed: int = 0,
) -> None:
    """Check the bounds that BF-IO's assignment keeps at one step, on which Lemma 4 rests.

    With ``a_g`` the loads before admission, ``c_g`` the free slots and
    ``Γ = s_max·c_min − (s_max − 1)·c_max``, put ``b_q = max{s_max − s_min, max_h a_h − a_q − Γ}``.
    On an overloaded step the gap is at most ``max_q b_q`` and the imbalance at most the sum of all
    ``b_q`` but the least; in a round they are at most ``s_max`` and ``(G − 1)·s_max``. The least
    gap and the least imbalance keep these bounds, with any tie-break.

    Parameters
    ----------
    policy : str, callable or class
        The policy.
    among : SearchStrategy, optional
        States to draw, by default `rounds` and `levelling_steps`; others are passed over.
    measure : {"imbalance", "gap"}
        What the policy claims to keep small.
    examples, seed : int
        Number of instances, and seed.

    Raises
    ------
    Refuted
        If the measure exceeds its bound, or a slot stays free.
    """
    if measure not in _MEASURES:
        raise InputError(
            "measure", f"{measure!r} has no bound", use_one_of(str(measure), _MEASURES)
        )
    made, objective = _Made(policy), Objective(measure)
    value = _MEASURES[objective]
    is_sum = objective is Objective.IMBALANCE
    stated = Property(
        f"smax-balance of the {measure}",
        "BF-IO paper, Lemmas 1, 2 and 4; proved in proofs_checks/proofs/separation-levels.md",
        "all slots are filled; either each worker has a free slot and the pool is overloaded "
        "(Definition 1), or loads and free slots are equal and there is a request for each slot",
    )

    def verify(state: DecodeState) -> None:
        base, slots, pool = (
            values.tolist() for values in (state.loads, state.free_slots, state.sizes)
        )
        G, largest = len(base), max(pool, default=0)
        assume(G > 1 and min(slots) > 0 and largest > 0)
        if is_overloaded([pool], [sum(slots)]):
            bounds = sorted(distance_bounds(base, slots, pool))
            bound = sum(bounds[1:]) if is_sum else bounds[-1]
        else:
            assume(gap(base) == gap(slots) == 0 and len(pool) == sum(slots))
            bound = (G - 1) * largest if is_sum else largest
        answer = made.valid(state)
        loads = loads_after(state, answer)
        did = f"{_told(answer)}: loads {loads}, {measure} {value(loads)}"

        def right() -> str:
            problem = StepProblem.from_state(state, objective=objective)
            best: list[int | None] = list(solve_step(problem).assignment or ())
            return f"at most {bound}; {best} has {value(loads_after(state, best))}, the least"

        if len(pool) - answer.count(None) < min(sum(slots), len(pool)):
            _break(state, f"{did}, with free slots left", right)
        if value(loads) > bound:
            _break(state, did, right)

    H = made.look_ahead
    default = rounds(horizon=H) | levelling_steps(horizon=H)
    _check(stated, made, default if among is None else among, verify, examples, seed)


def check_improvement(policy: AnyPolicy, **options: Any) -> None:
    """Check the improvement ratio over FCFS against Theorem 1; options of `improvement_ratio`.

    Raises
    ------
    Refuted
        If the measured ratio is below the bound ``c·κ_0·√(B log G)·G/(G − 1)``.
    """
    made = _Made(policy)
    found = improvement_ratio(made.new(), **options)
    if found.ratio < found.bound:
        raise Refuted(
            f"{made.name} breaks the improvement ratio\n"
            "  source    BF-IO paper, Theorem 1, for the best partition of each round\n"
            "  assumes   rounds of G·B requests with equal outputs, log G >= 4, B >= B_0(G)\n"
            f"  policy    imbalance {found.policy:.1f}, FCFS {found.fcfs:.1f}: ratio "
            f"{found.ratio:.4f}\n"
            f"  right     at least {found.bound:.4f}"
        )


# Whole runs.


def _break_run(
    scenario: Scenario, did: str, right: str, also: str = "", instead: Property | None = None
) -> NoReturn:
    instance = _run_in_words(scenario) + also
    raise _Broken(len(scenario.workload), instance, did, lambda: right, instead)


def _run_in_words(scenario: Scenario) -> str:
    load, cluster = scenario.workload, scenario.cluster
    rows = zip(load.prompt_tokens.tolist(), load.output_tokens.tolist(), strict=True)
    shown = ", ".join(f"{prompt}+{output}" for prompt, output in rows) or "none"
    arrivals = ""
    if scenario.options["arrivals"] == "timed":
        times = load.exact_arrivals().seconds()
        arrivals = f"; arrivals {', '.join(f'{t:g}' for t in times.tolist())} s"
    memory = "" if cluster.memory is None else f", memory {cluster.memory}"
    return (
        f"{cluster.workers} workers, slots {cluster.slots}{memory}; requests (prompt+output): "
        f"{shown}{arrivals}"
    )


class _Recorder:
    """A policy that keeps what it was told and what it answered, call by call."""

    def __init__(self, policy: Policy, may_know: str) -> None:
        self._policy, self._may_know = policy, may_know
        #: What the policy could tell runs apart by: states, and requests that have ended.
        self.told: list[tuple[object, ...]] = []
        self.answers: list[object] = []
        self.seen: list[DecodeState] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._policy, name)

    def __call__(self, state: DecodeState) -> Any:
        known = [*OF_WORKERS, "sizes", "ages", "needs", "step"]
        if self._may_know == "nothing":
            known = [name for name in known if not name.startswith("projected")]
        values = [getattr(state, name) for name in known]
        if self._may_know == "active":
            values.append(state.remaining)
        self.told.append(tuple(None if v is None else np.asarray(v).tolist() for v in values))
        answer = self._policy(state)
        self.seen.append(state)
        rests = list(getattr(answer, "rests", ()))
        self.answers.append(f"{list(answer)}{f', resting {rests}' if rests else ''}")
        return answer

    def finished(self, requests: Any, outputs: Any) -> None:
        """Keep the lengths that are known now, and pass them on."""
        self.told.append((requests.tolist(), outputs.tolist()))
        self.answers.append(None)
        self.seen.append(None)  # type: ignore[arg-type]
        if hasattr(self._policy, "finished"):
            self._policy.finished(requests, outputs)


def _simulated(made: _Made, scenario: Scenario, policy: Any, **changes: Any) -> Any:
    """Run a policy in the reference engine; break if it is the policy that fails."""
    try:
        return scenario.simulate(policy, engine="reference", **changes)
    except InputError as error:
        if not error.where.startswith("policy "):
            raise
        what = f"{error.where.partition(', ')[2]}: {error.what}"
        broken = CONSERVATION if "stalled" in what else CONTRACT
        _break_run(scenario, what, error.remedy, instead=broken)


CONSERVATION = Property(
    "conservation",
    "spec of the engine (docs/engine.md): work and tokens do not depend on the policy",
    "the run is not cut short; the policy starts a request when nothing runs",
)


@_checks(CONSERVATION, lambda _: plain_scenarios())
def check_conservation(made: _Made, scenario: Scenario) -> None:
    """Check that each request runs exactly once, to its end, by the independent replay.

    Raises
    ------
    Refuted
        If the run stalls, an answer is invalid, a rule of the replay is broken, or tokens or work
        are lost.
    """
    load = scenario.workload
    run = _simulated(made, scenario, made.new())
    broken = run_violations(run, load, scenario.cluster)
    if broken or run.completed + run.cancelled < len(load):
        did = f"completed {run.completed} requests; broken rules: {broken or 'none'}"
        right = f"all {len(load)} end once, with {load.total_output_tokens} tokens in all"
        _break_run(scenario, did, right)


def check_no_starvation(
    policy: AnyPolicy,
    among: st.SearchStrategy[Scenario] | None = None,
    *,
    overtakes: int = 3,
    examples: int = 200,
    seed: int = 0,
) -> None:
    """Check that few younger requests start before a request; see `check_conservation`.

    FCFS overtakes nobody. Policies that choose by size promise no limit.

    Parameters
    ----------
    policy, among, examples, seed
        As in `check_conservation`.
    overtakes : int
        Most younger requests that start at earlier steps than a request.

    Raises
    ------
    Refuted
        If more do, or a request never starts.
    """
    made = _Made(policy)
    stated = Property(
        f"no starvation (at most {overtakes} overtake)",
        "a bound on waiting; no paper proves one for policies that choose by size",
        "pooled dispatch, unlimited memory",
    )

    def verify(scenario: Scenario) -> None:
        run = _simulated(made, scenario, made.new())
        starts = run.start_step.tolist()
        for i, start in enumerate(starts):
            before = [j for j in range(i + 1, len(starts)) if starts[j] < start]
            if len(before) > overtakes:
                did = f"request {i} starts at step {start}, after younger ones: {before}"
                _break_run(scenario, did, f"request {i} starts before the last of these")

    runs = plain_scenarios() if among is None else among
    _check(stated, made, runs, verify, examples, seed)


@st.composite
def _busy_runs(draw: st.DrawFn) -> Scenario:
    """Draw a few requests that come while others run and slots are free."""
    n = draw(st.integers(3, 5))

    def each(low: int, high: int) -> list[int]:
        return draw(st.lists(st.integers(low, high), min_size=n, max_size=n))

    times = tuple(map(Fraction, sorted(each(0, 2))))
    cluster = Cluster(workers=2, slots=2, step_overhead_s=1.0, token_time_s=1e-6)
    workload = Workload(each(1, 9), each(1, 3), times)  # type: ignore[arg-type]
    return Scenario(workload, cluster, {"arrivals": "timed", "seed": draw(st.integers(0, 9))})


def _chooses(state: DecodeState) -> bool:
    """Return whether something runs, and either requests compete for slots or workers for them."""
    free = state.free_slots
    scarce = state.num_waiting > free.sum() > 0
    return bool(state.running.any() and (scarce or (state.num_waiting and (free > 0).sum() > 1)))


def check_blind_to_lengths(
    policy: AnyPolicy,
    among: st.SearchStrategy[Scenario] | None = None,
    *,
    may_know: str = "nothing",
    examples: int = 200,
    seed: int = 0,
) -> None:
    """Check that no decision depends on an output length that is not known yet.

    Two runs have the same requests but for their lengths, which have the same past up to a step
    and another future. As long as the policy is told the same in both, it must answer the same.
    Predictions are exact, so whoever looks is found out.

    Parameters
    ----------
    policy, among, examples, seed
        As in `check_conservation`.
    may_know : {"nothing", "active"}
        Whether the policy may use the ends of active requests in its window, as BF-IO's look-ahead
        does. What waits is unknown in both cases.

    Raises
    ------
    Refuted
        If an answer changes with the lengths alone.
    """
    made = _Made(policy)
    if may_know not in ("nothing", "active"):
        raise InputError("may_know", f"{may_know!r} is unknown", "use nothing or active")
    stated = Property(
        "blindness to lengths",
        "BF-IO paper, sections 4 and 5: outputs are unknown; the look-ahead is of active requests",
        "the policy has been told the same so far"
        + (", ends of active requests included" if may_know == "active" else ""),
    )
    window: dict[str, Any] = {
        "predictor": "oracle",
        "window_knows": "active" if may_know == "active" else "all",
        "horizon": max(made.look_ahead, 1),
    }

    ends = (1, window["horizon"] + 1)

    def verify(drawn: tuple[Scenario, int, list[bool]]) -> None:
        scenario, turn, bits = drawn
        seen = _Recorder(made.new(), may_know)
        run = _simulated(made, scenario, seen, **window)
        # Two drawn runs seldom agree up to a step at which something runs and something may start.
        # So both keep the past of such a step, and then a request ends at once in one of them and
        # outlives the window in the other.
        steps = [state.step for state in seen.seen if state and _chooses(state)] or [0]
        step = steps[turn % len(steps)]
        pair = []
        for late in (False, True):
            outputs = scenario.workload.output_tokens.tolist()
            for i, start in enumerate(run.start_step.tolist()):
                ran = step - start if 0 <= start < step else 0
                if ran < outputs[i]:
                    outputs[i] = ran + ends[bits[i % len(bits)] ^ late]
            each = scenario.with_outputs(outputs)
            pair.append((each, _Recorder(made.new(), may_know)))
            _simulated(made, *pair[-1], **window, steps=step + 1)
        (one, first), (other, second) = pair
        for k, (told, again) in enumerate(zip(first.told, second.told, strict=False)):
            if told != again:
                return
            if first.answers[k] != second.answers[k]:
                state = first.seen[k]
                did = (
                    f"at step {state.step} ({in_words(state)}) answered {first.answers[k]}, "
                    f"with the other outputs {second.answers[k]}"
                )
                outputs = other.workload.output_tokens.tolist()
                right = "the same answer: nothing else differs so far"
                _break_run(one, did, right, f"; or with outputs {outputs}")

    runs = _busy_runs() if among is None else among
    bits = st.lists(st.booleans(), min_size=1, max_size=5)
    _check(stated, made, st.tuples(runs, st.integers(0, 9), bits), verify, examples, seed)
