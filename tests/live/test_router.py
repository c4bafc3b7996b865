"""The router over HTTP, in front of the emulated fleet."""

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bfio import Cluster, Workload, simulate
from bfio.decode.options import RunOptions
from bfio.decode.run import Run
from bfio.decode.state import DecodeState
from tests.live.servers import Live, live


@st.composite
def timed_runs(draw: st.DrawFn) -> tuple[Workload, Cluster]:
    """Draw requests of which the first comes alone and runs throughout."""
    n = draw(st.integers(1, 25))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    outputs = np.append(60, rng.integers(1, 20, n))
    arrivals = np.append(0.0, np.sort(rng.uniform(1e-4, 0.2, n)))
    prompts = rng.integers(1, 40, n + 1)
    cluster = Cluster(workers=draw(st.integers(1, 4)), slots=draw(st.integers(1, 4)))
    return Workload(prompts, outputs, arrivals), cluster


async def stepped(workload: Workload, cluster: Cluster, policy: str, run: Run) -> None:
    """Serve the requests on the stepped clock, and compare the loads of every step."""
    async with live(cluster, policy, speed=None, run=run.options, tick_s=60.0) as both:
        router, answers = both.router, []

        async def come(step: int) -> None:
            for row in np.flatnonzero(run.reveal_step == step).tolist():
                fields = {
                    "prompt": [1] * int(workload.prompt_tokens[row]),
                    "max_tokens": int(workload.output_tokens[row]),
                }
                answers.append(asyncio.create_task(both.complete(**fields)))
                await both.until(lambda: router.arrived == len(answers))

        await come(0)
        await both.until(lambda: router.sent == 1)
        for step in range(run.steps):
            # The boundary after this step decides about them.
            await come(step + 1)
            before = router.table.step
            told = await both.order("/bfio/step", received=router.sent)
            assert run.loads is not None
            assert told["loads"] == run.loads[step].tolist(), step
            if step + 1 < run.steps:
                await both.until(lambda: router.table.step > before)  # noqa: B023
        for row, answer in enumerate(answers):
            status, document = await answer
            assert status == 200
            assert document["usage"]["completion_tokens"] == workload.output_tokens[row]


@pytest.mark.parametrize("policy", ["random", "jsq", "br-0", "br-h:horizon=5", "bf-io"])
@given(case=timed_runs())
@settings(max_examples=3)
def test_steps_through_http_equal_the_simulators(policy: str, case: Any) -> None:
    """On the stepped clock every step has the loads of the simulation."""
    workload, cluster = case
    options = RunOptions(arrivals="timed", predictor="oracle", projection="growing")
    run = simulate(workload, policy, cluster, options=options)
    asyncio.run(stepped(workload, cluster, policy, run))
