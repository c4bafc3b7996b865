"""Checks of any policy: the contract of the engine, and properties that the papers state.

A check draws instances (states of one step, or whole runs), calls a new policy object on each, and
raises `Refuted` with the smallest instance on which the policy violates the property. Equal seeds
draw equal instances.
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

#: A policy: a name, a function of the state, a callable object, or a class of callable objects.
AnyPolicy: TypeAlias = str | Policy | type[Policy]
#: Number of repeated calls on one state, to test that the answer is reproducible.
_TIMES = 2
#: Number of requests up to which a counterexample is small enough to stop the search.
_FEW = 5


class Refuted(AssertionError):  # noqa: N818  # the word of the claims
    """Raised by a check; the message has the property, its hypotheses, and the counterexample."""


@dataclass(frozen=True)
class Property:
    """A property in words: its name, its source, and its hypotheses."""

    name: str
    source: str
    assumes: str


@dataclass(eq=False)
class _Broken(Exception):  # noqa: N818  # a finding, turned into Refuted at the end
    """A counterexample; its message is built at the end, because shrinking raises many of them."""

    size: int
    instance: str
    did: str
    right: Callable[[], str]
    instead: Property | None  #: The violated property, if it is not the checked one.


class _Made:
    """A policy of which each instance gets a new object, with its name and look-ahead [steps]."""

    def __init__(self, policy: AnyPolicy) -> None:
        check_policy(policy)
        self._policy = policy
        self.chosen = choose(policy if isinstance(policy, str) else self.new())
        self.name = self.chosen.text
        self.look_ahead = self.chosen.look_ahead()

    def new(self) -> Policy:
        """Return a new policy object, without memory of earlier instances."""
        if isinstance(self._policy, str):
            return self.chosen.make()
        return self._policy() if isinstance(self._policy, type) else deepcopy(self._policy)

    def ask(self, state: DecodeState) -> Any:
        """Return a new policy's answer to a state; raise `_Broken` if it fails or changes it."""
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
        """Return the answer to a state as a list; raise `_Broken` if the answer is invalid."""
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
    """Return a strategy of small states with the look-ahead window that a policy needs."""
    return decode_states(max_workers=3, max_waiting=6, horizon=made.look_ahead, **widths)


def _check(
    stated: Property,
    policy: _Made,
    among: st.SearchStrategy[Any],
    verify: Callable[[Any], None],
    examples: int,
    seed: int,
) -> None:
    """Verify drawn instances; raise `Refuted` with the smallest one that violates the property."""
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

    # Shrinking may end at an instance with many requests; then search for one with fewer.
    while last is None or last.size > _FEW:
        try:
            trial()
        except Unsatisfiable:
            if last is not None:
                break
            what = f"no drawn instance satisfies the hypotheses of {stated.name}: {stated.assumes}"
            raise InputError("among", what, "draw such instances") from None
        except (_Broken, Flaky) as error:
            # A policy with its own random generator may answer correctly when called again.
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
    Strategy of the instances: states, by default `decode_states`, or whole runs, by default
    `plain_scenarios`; `scenarios` draws from all features of the engine.
examples, seed : int
    Number of instances, and seed of the draws.

"""


def _checks(
    stated: Property, default: Callable[[_Made], st.SearchStrategy[Any]]
) -> Callable[[Callable[[_Made, Any], None]], Callable[..., None]]:
    """Decorate a function that verifies one instance: return a check on drawn instances."""

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
        # Without this, `inspect.signature` would report the signature of ``verify``.
        del check.__wrapped__  # type: ignore[attr-defined]
        return check

    return of


CONTRACT = Property(
    "the contract of policies",
    "bfio.decode.policy",
    "nothing; new policy objects give equal answers to equal states with equal generators",
)


@_checks(CONTRACT, _states)
def check_contract(made: _Made, state: DecodeState) -> None:
    """Check that answers are valid and reproducible, and that the state is not changed.

    A policy object may store earlier calls in its attributes. Each call therefore uses a new
    object, so the check only detects memory or randomness outside the object.

    Raises
    ------
    Refuted
        If an answer does not have one entry per waiting request, has an invalid worker, or exceeds
        the free slots; if the policy changes the state or raises an error; or if two new objects
        answer differently.
    """
    answer = made.valid(state)
    for _ in range(_TIMES):
        if (again := made.valid(state)) != answer:
            did = f"{_told(answer)}, asked again {again}"
            _break(
                state, did, "the same answer of each new policy; draw random numbers by state.rng"
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
        If fewer than ``min(waiting requests, free slots)`` requests start.
    """
    answer = made.valid(state)
    admitted, most = len(answer) - answer.count(None), state.num_admissible
    if admitted < most:
        _break(state, f"{_told(answer)}: {admitted} start", f"{most} start")


MEMORY = Property(
    "memory",
    "docs/cluster.md: a worker refuses a request that does not fit",
    "request i needs state.needs[i] tokens, worker g has state.room[g] free; the policy "
    "promises not to rely on the engine, which refuses requests that do not fit",
)


@_checks(MEMORY, partial(_states, memory=True))
def check_memory(made: _Made, state: DecodeState) -> None:
    """Check that the requests that start fit into the memory of their workers.

    Not required of policies: the engine refuses requests that do not fit.

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
    "requests are equal in size, window and need; workers in all their fields of the state",
)


@st.composite
def _twins(draw: st.DrawFn, made: _Made) -> DecodeState:
    """Draw a state with small numbers, in which several workers may be equal."""
    tokens, sizes = st.integers(0, 3), st.integers(1, 3)
    state = draw(_states(made, tokens=tokens, sizes=sizes))
    workers = st.lists(st.integers(0, state.num_workers - 1), min_size=1, max_size=4)
    return in_places(state, np.array(draw(workers)))


@_checks(TIES, _twins)
def check_ties(made: _Made, state: DecodeState) -> None:
    """Check that ties go to the oldest request and to the worker of lowest index.

    Raises
    ------
    Refuted
        If a request starts while an equal, older request waits; or if a worker gets requests while
        an equal worker of lower index gets none.
    """
    answer = made.valid(state)
    of_requests = (state.sizes, state.needs, state.contributions)
    kinds = list(zip(*(values.tolist() for values in of_requests), strict=True))
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
    """Check the bounds on gap and imbalance of BF-IO's assignment at one step, used by Lemma 4.

    With ``a_g`` the loads before admission, ``c_g`` the free slots and
    ``Γ = s_max·c_min − (s_max − 1)·c_max``, let ``b_q = max{s_max − s_min, max_h a_h − a_q − Γ}``.
    On an overloaded step, the gap is at most ``max_q b_q``, and the imbalance at most the sum of
    all ``b_q`` except the smallest. In a round (equal loads, equal free slots, a request for each
    slot) the bounds are ``s_max`` and ``(G − 1)·s_max``. Every assignment of least gap, or least
    imbalance, satisfies the bound on its measure.

    Parameters
    ----------
    policy : str, callable or class
        The policy.
    among : SearchStrategy, optional
        Strategy of the states, by default `rounds` and `levelling_steps`. States that are neither
        overloaded steps nor rounds are skipped.
    measure : {"imbalance", "gap"}
        The measure that the policy claims to minimise.
    examples, seed : int
        Number of instances, and seed of the draws.

    Raises
    ------
    Refuted
        If the measure exceeds its bound, or a slot stays free while a request waits.
    """
    if measure not in _MEASURES:
        what = f"{measure!r} has no bound"
        raise InputError("measure", what, use_one_of(str(measure), _MEASURES))
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
    """Check the improvement ratio over FCFS against Theorem 1; options as in `improvement_ratio`.

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
    """A policy wrapper that records the inputs and answers of each call."""

    def __init__(self, policy: Policy, may_know: str) -> None:
        self._policy, self._may_know = policy, may_know
        #: Inputs by which the policy can distinguish runs: states, and lengths of ended requests.
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
        """Record the output lengths of ended requests, and pass them to the policy."""
        self.told.append((requests.tolist(), outputs.tolist()))
        self.answers.append(None)
        self.seen.append(None)  # type: ignore[arg-type]
        if hasattr(self._policy, "finished"):
            self._policy.finished(requests, outputs)


def _simulated(made: _Made, scenario: Scenario, policy: Any, **changes: Any) -> Any:
    """Run a policy in the reference engine; raise `_Broken` for errors of the policy."""
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
    "the run has no step limit; the policy starts a request when none runs",
)


@_checks(CONSERVATION, lambda _: plain_scenarios())
def check_conservation(made: _Made, scenario: Scenario) -> None:
    """Check by the independent replay that each request runs exactly once and to its end.

    Raises
    ------
    Refuted
        If the run stalls, an answer is invalid, the replay finds a violated rule, or a request
        does not end.
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
    """Check that at most ``overtakes`` younger requests start before each request, in whole runs.

    Under FCFS no request is overtaken. Policies that choose by size have no such limit.

    Parameters
    ----------
    policy, among, examples, seed
        As in `check_conservation`.
    overtakes : int
        Largest allowed number of younger requests that start at an earlier step than a request.

    Raises
    ------
    Refuted
        If more than ``overtakes`` younger requests start earlier than some request, or the policy
        stalls.
    """
    made = _Made(policy)
    stated = Property(
        f"no starvation (at most {overtakes} overtake)",
        "a limit on overtaking; no paper proves one for policies that choose by size",
        "pooled dispatch, unlimited memory",
    )

    def verify(scenario: Scenario) -> None:
        run = _simulated(made, scenario, made.new())
        starts = run.start_step.tolist()
        for i, start in enumerate(starts):
            before = [j for j in range(i + 1, len(starts)) if starts[j] < start]
            if len(before) > overtakes:
                did = f"request {i} starts at step {start}, after younger ones: {before}"
                _break_run(scenario, did, f"at most {overtakes} younger ones start earlier")

    runs = plain_scenarios() if among is None else among
    _check(stated, made, runs, verify, examples, seed)


@st.composite
def _busy_runs(draw: st.DrawFn) -> Scenario:
    """Draw a run of a few requests, some of which arrive while others run and slots are free."""
    n = draw(st.integers(3, 5))

    def each(low: int, high: int) -> list[int]:
        return draw(st.lists(st.integers(low, high), min_size=n, max_size=n))

    times = tuple(map(Fraction, sorted(each(0, 2))))
    cluster = Cluster(workers=2, slots=2, step_overhead_s=1.0, token_time_s=1e-6)
    workload = Workload(each(1, 9), each(1, 3), times)  # type: ignore[arg-type]
    return Scenario(workload, cluster, {"arrivals": "timed", "seed": draw(st.integers(0, 9))})


def _chooses(state: DecodeState) -> bool:
    """Return whether a request runs and the policy has a choice: of requests, or of workers."""
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
    """Check that no decision depends on an output length that is still unknown.

    The check simulates pairs of runs whose requests differ only in output lengths, and only after
    a common step. As long as the policy gets equal inputs in both runs, it must answer equally.
    Predicted lengths in the states are exact, so a policy that reads them is detected.

    Parameters
    ----------
    policy, among, examples, seed
        As in `check_conservation`.
    may_know : {"nothing", "active"}
        Whether the policy may use the ends of active requests within its look-ahead window, as
        BF-IO does. Lengths of waiting requests are unknown in both cases.

    Raises
    ------
    Refuted
        If two answers differ although only unknown lengths differ.
    """
    made = _Made(policy)
    if may_know not in ("nothing", "active"):
        raise InputError("may_know", f"{may_know!r} is unknown", "use nothing or active")
    stated = Property(
        "blindness to lengths",
        "BF-IO paper, sections 4 and 5: outputs are unknown; the look-ahead is of active requests",
        "the policy has had equal inputs so far"
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
        # Two independently drawn runs seldom agree up to a step with a choice. So both runs share
        # the past of such a step; afterwards, an active request ends at once in one run, and after
        # the window in the other.
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
                right = "the same answer: only unknown outputs differ so far"
                _break_run(one, did, right, f"; or with outputs {outputs}")

    runs = _busy_runs() if among is None else among
    bits = st.lists(st.booleans(), min_size=1, max_size=5)
    _check(stated, made, st.tuples(runs, st.integers(0, 9), bits), verify, examples, seed)
