"""Strategies of instances, policies and stopping rules for one engine, and a golden instance."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from bfio.wait.chains import Chain, ThresholdPolicy, grouped_policy, nested_policy, wait_policy
from bfio.wait.fcfs import Favour, FirstComeFirstServed
from bfio.wait.policy import StageClock, StageInstance, StagePolicy
from bfio.wait.run import StageRun
from bfio.wait.simulation import serve
from formulations.fluid import FluidProblem, RequestClass

#: The golden instance of the paper's appendix: equilibrium memory 9 in batches of one second.
I0 = FluidProblem.from_mapping(
    {
        "classes": [{"rate": 1, "prompt": 1, "output": 1}, {"rate": 1, "prompt": 1, "output": 2}],
        "d0": "1/2",
        "d1": "1/18",
        "memory": 9,
    }
)
#: Four lengths of which least thresholds of Nested WAIT are (4, 4, 4, 3): full batch 1044 tokens.
FOUR_LENGTHS = FluidProblem.from_mapping(
    {
        "classes": [
            {"rate": rate, "prompt": 10, "output": output}
            for rate, output in (("0.2", 2), ("0.4", 4), ("0.8", 8), ("1.6", 16))
        ],
        "d0": 1,
        "d1": "1e-4",
        "memory": 1468,
    }
)


def instance(
    memory: int, requests: list[tuple[int, int, int]], *, fixed: int = 1, per_token: int = 0
) -> StageInstance:
    """Return the instance of ``(arrival, prompt, output)`` triples, with a unit of one second."""
    columns = np.array(requests, dtype=np.int64).reshape(len(requests), 3).T.copy()
    return StageInstance(memory, StageClock(1, fixed, per_token), *columns)


#: Time from one arrival to the next: ties are frequent.
_GAPS = (0, 0, 0, 1, 2, 9)


@st.composite
def instances(
    draw: st.DrawFn, *, max_requests: int = 14, max_output: int = 6, max_memory: int = 60
) -> StageInstance:
    """Draw requests that fit alone: ties, none at all, no output, no time per token included.

    Their lengths are few, so that thresholds of classes are met.
    """
    lengths = st.tuples(st.integers(1, 5), st.integers(0, max_output))
    kinds = draw(st.lists(lengths, min_size=1, max_size=4))
    # One draw for each request, of its gap and its kind, keeps drawing cheap.
    pairs = st.integers(0, len(_GAPS) * len(kinds) - 1)
    requests, clock = [], 0
    for pair in draw(st.lists(pairs, max_size=max_requests)):
        clock += _GAPS[pair % len(_GAPS)]
        requests.append((clock, *kinds[pair // len(_GAPS)]))
    least = max((prompt + output for _, prompt, output in requests), default=1)
    memory = draw(st.one_of(st.just(least), st.integers(least, max(least, max_memory))))
    return instance(
        memory, requests, fixed=draw(st.integers(1, 6)), per_token=draw(st.integers(0, 2))
    )


thresholds = st.integers(1, 4)


@st.composite
def chains(draw: st.DrawFn, longest: int) -> Chain:
    """Draw segments that take outputs up to a length, wherever they end, and thresholds."""
    last = longest + draw(st.integers(0, 2))
    ends = [stage for stage in range(last) if draw(st.booleans())]
    return Chain((*ends, last), tuple(draw(thresholds) for _ in (*ends, last)))


@st.composite
def wait_policies(draw: st.DrawFn, data: StageInstance) -> ThresholdPolicy:
    """Draw WAIT for the lengths of some requests, and maybe for a class that never comes."""
    kinds = sorted(set(zip(data.prompt.tolist(), data.output.tolist(), strict=True)))
    if draw(st.booleans()) or not kinds:
        kinds.append((97, draw(st.integers(0, 3))))
    classes = [RequestClass(Fraction(1), prompt, output) for prompt, output in kinds]
    return wait_policy(classes, [draw(thresholds) for _ in classes])


@st.composite
def nested_policies(draw: st.DrawFn, data: StageInstance) -> ThresholdPolicy:
    """Draw Nested WAIT, with one chain or one for each prompt."""
    longest = int(data.output.max(initial=0))
    if draw(st.booleans()):
        chain = draw(chains(longest))
        return nested_policy(chain.ends, chain.thresholds)
    prompts = sorted(set(data.prompt.tolist())) or [1]
    return grouped_policy({prompt: draw(chains(longest)) for prompt in prompts})


@st.composite
def first_come_policies(draw: st.DrawFn) -> FirstComeFirstServed:
    """Draw FCFS with any combination of its options."""
    favour = draw(st.sampled_from(list(Favour)))
    return FirstComeFirstServed(
        favour,
        limit=draw(st.sampled_from([0, 1, 2, 5])),
        token_limit=draw(st.sampled_from([0, 1, 9, 30])),
        mixed=favour is Favour.ONGOING or draw(st.booleans()),
    )


def policies(data: StageInstance) -> st.SearchStrategy[StagePolicy]:
    """Draw any built-in policy for an instance."""
    return st.one_of(wait_policies(data), nested_policies(data), first_come_policies())


@dataclass(frozen=True)
class Setting:
    """How a run ends."""

    horizon: int | None
    drain: bool | None
    batches: int

    def serve(self, data: StageInstance, policy: StagePolicy, engine: str) -> StageRun:
        """Run a policy on an engine."""
        return serve(
            data,
            policy,
            name="drawn",
            horizon_s=None if self.horizon is None else Fraction(self.horizon),
            drain=self.drain,
            batches=self.batches,
            engine=engine,
        )


settings_of_runs = st.builds(
    Setting,
    st.one_of(st.none(), st.integers(1, 120)),
    st.sampled_from([None, True, False]),
    st.one_of(st.just(10**8), st.integers(0, 30)),
)
