"""Rows that serve the requests of a run through emulator and router, beside the simulator.

The simulator gets the requests with the arrival times that the router saw, on the clock of the
fleet: its boundaries are those of the log, and the times between them are those of the loads.
"""

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import aiohttp
import numpy as np

from bfio.decode.cluster import Cluster
from bfio.decode.run import Run
from bfio.live.log import DECISIONS, REQUESTS
from bfio.live.replay import Replay, Served, of_run
from bfio.studies.row import RowContext, RowResult, Value
from bfio.studies.row_kind import Planned, descriptions, planned_kind
from bfio.studies.row_parts.arguments import Arguments
from bfio.studies.row_parts.runs import ARGUMENTS, RunPlan, run_plan, runs_digest
from bfio.workloads.trace_file import read_trace
from bfio.workloads.workload import Workload
from formulations.arrays import FloatArray

#: What is compared, under the names of `bfio.decode.metrics`.
COMPARED = ("avg_imbalance", "tpot_p95_s", "throughput_tokens_per_s")
OWN = ("clock", "settle", "tick")
_TIMES = ("arrival_s", "start_s", "first_s", "end_s")
#: Least time between an arrival and a boundary on the clock of the fleet [s].
_BESIDE_S = 1e-5


@contextmanager
def command(*words: str) -> Iterator[str]:
    """Run a command of ``bfio`` that serves, and yield its address."""
    with subprocess.Popen(
        [sys.executable, "-m", "bfio", *words], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            (address,) = (w for w in process.stdout.readline().split() if w.startswith("http"))
            yield address.rstrip(";")
        finally:
            # The log is complete after Ctrl-C.
            process.send_signal(signal.SIGINT)


async def send(url: str, workload: Workload, rate: float) -> list[float]:
    """Send requests at their arrival times, after one alone; return how late they were [s]."""
    assert workload.arrival_times is not None
    arrivals = np.array(workload.arrival_times, dtype=np.float64) / rate
    arrivals -= arrivals[0]
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(url, connector=connector, timeout=timeout) as session:

        async def complete(prompt: int, output: int) -> None:
            fields = {"prompt": "a " * prompt, "max_tokens": output}
            async with session.post("/v1/completions", json=fields) as answer:
                assert answer.status == 200, await answer.text()
                told = await answer.json()
                assert told["usage"]["completion_tokens"] == output

        await complete(1, 8)
        began, lateness, tasks = time.monotonic(), [], []
        lengths = zip(workload.prompt_tokens, workload.output_tokens, strict=True)
        for arrival, (prompt, output) in zip(arrivals.tolist(), lengths, strict=True):
            await asyncio.sleep(max(0.0, began + arrival - time.monotonic()))
            lateness.append(time.monotonic() - began - arrival)
            tasks.append(asyncio.create_task(complete(int(prompt), int(output))))
        await asyncio.gather(*tasks)
    return lateness


def serve(plan: RunPlan, folder: Path, given: Arguments) -> list[float]:
    """Serve the requests with a log in ``folder``; return how late they were sent [s]."""
    cluster, options = plan.cluster, plan.options
    shape = "--workers", str(cluster.workers), "--slots", str(cluster.slots)
    clock = given.seconds("clock", 0.05)
    fleet = "--clock", str(clock), "--settle", str(given.seconds("settle", 0.08)), "--port", "0"
    asked = {
        "policy": plan.policy.text, "predictor": options.predictor, "dispatch": options.dispatch,
        "projection": options.projection, "window-knows": options.window_knows,
        "seed": options.seed, "tick": given.seconds("tick", 0.03), "log": folder, "port": 0,
        "pool": 2**14, "ttl": 1e6,
    }  # fmt: skip
    words = [word for name, value in asked.items() for word in (f"--{name}", str(value))]
    with command("emulate", *shape, *fleet) as workers:
        addresses = f"{workers}*{cluster.workers}"
        with command("route", "--workers", addresses, *shape[2:], *words) as url:
            return asyncio.run(send(url, plan.workload, clock * float(options.rate_scale)))


class FleetClock(NamedTuple):
    """The boundaries between steps by two clocks."""

    routers: FloatArray  #: As the router saw them [s].
    fleets: FloatArray  #: As the loads of the steps between them say [s].
    rate: float  #: Seconds of the fleet per second where nothing ran.

    def read(self, seconds: FloatArray) -> FloatArray:
        """Return times of the router's clock on the clock of the fleet [s]."""
        after = np.maximum(seconds - self.routers[-1], 0.0)
        told: FloatArray = np.interp(seconds, self.routers, self.fleets) + after * self.rate
        return told


def seen(folder: Path, cluster: Cluster, rate: float) -> tuple[Workload, FleetClock]:
    """Return the requests of a log as the router saw them come, on the clock of the fleet.

    A request comes between the boundary that first decided about it and the one before, whatever
    the time of its line says: times of the two services differ by what a message takes.
    """
    trace = read_trace(folder / REQUESTS)
    assert trace.arrival_times is not None
    arrivals = np.array(trace.arrival_times, dtype=np.float64)
    first = np.zeros(len(arrivals), dtype=np.intp)
    routers, fleets = [0.0], [0.0]
    loads: Any = None
    decided: list[int] = []
    for line in (folder / DECISIONS).read_text("utf-8").splitlines():
        told = json.loads(line)
        if told["event"] == "decision":
            decided += [request for request in told["requests"] if not first[request]]
        if told["event"] != "step":
            continue
        if told["late"] is None:
            # No step has ended: this one begins with the last request that came.
            at = max(arrivals[decided], default=told["t"])
            arrivals[decided] = at
            passed = (at - routers[-1]) * rate
        else:
            at, passed = told["t"], cluster.step_time(loads)
            first[decided] = len(routers)
        routers.append(at)
        fleets.append(fleets[-1] + passed)
        decided, loads = [], told["loads"]
    clock = FleetClock(np.array(routers), np.array(fleets), rate)
    times = clock.read(arrivals)
    known = first > 0
    after, before = clock.fleets[first[known] - 1], clock.fleets[first[known]]
    times[known] = np.clip(times[known], after + _BESIDE_S, before - _BESIDE_S)
    return Workload(trace.prompt_tokens, trace.output_tokens, times.tolist()), clock


def equal_steps(run: Run, measured: Served) -> int:
    """Return after how many steps the loads of router and simulator differ first."""
    assert run.loads is not None
    steps = min(len(measured.loads), len(run.loads))
    differ = np.flatnonzero((run.loads[:steps] != measured.loads[:steps]).any(axis=1))
    return int(differ[0]) if differ.size else steps


def plan(arguments: Mapping[str, Any], context: RowContext) -> Planned:
    """Read the arguments of a row: those of ``simulate``, and the times of the services."""
    own = {name: arguments[name] for name in OWN if name in arguments}
    rest = {name: value for name, value in arguments.items() if name not in own}
    run = run_plan(Arguments(rest, ARGUMENTS), context)
    given = Arguments(own, OWN)
    return Planned(runs_digest(run), lambda: measure(run, given), run.draws(), run.setting())


def measure(plan: RunPlan, given: Arguments) -> RowResult:
    """Serve and simulate the requests of a run."""
    rate = given.seconds("clock", 0.05)
    with TemporaryDirectory() as name:
        folder = Path(name) / "log"
        lateness = serve(plan, folder, given)
        values, lag = compared(plan, folder, rate)
    return RowResult(values=values, timings={"lag": lag, "sent_late_max_s": max(lateness)})


def compared(plan: RunPlan, folder: Path, rate: float) -> tuple[dict[str, Value], float]:
    """Return the values of a row from its log, and by how much the machine was too slow."""
    measured = Replay(folder).measured
    requests, clock = seen(folder, plan.cluster, rate)
    times: dict[str, Any] = {name: clock.read(getattr(measured, name)) for name in _TIMES}
    live = replace(measured, **times).to_mapping()
    run = replace(plan, options=replace(plan.options, rate_scale=Fraction(1))).run(requests)
    simulated = of_run(run).to_mapping()
    values: dict[str, Value] = {f"live.{name}": live[name] for name in COMPARED}
    values |= {f"simulated.{name}": simulated[name] for name in COMPARED}
    values |= {f"ratio.{name}": live[name] / simulated[name] for name in COMPARED}
    values |= {"steps": len(measured.loads), "equal_steps": equal_steps(run, measured)}
    passed = clock.fleets[-1] - clock.fleets[1]
    return values, float((clock.routers[-1] - clock.routers[1]) * rate / passed)


KIND = planned_kind(
    "live-runs",
    "a run through emulator and router beside its simulation",
    plan,
    descriptions("""
        live.avg_imbalance | tokens | mean of G·max load - total load over the steps, live
        live.tpot_p95_s | s | 95th percentile of the time per output token, live
        live.throughput_tokens_per_s | tokens/s | output tokens per second, live
        simulated.avg_imbalance | tokens | the same in the simulator
        simulated.tpot_p95_s | s | the same in the simulator
        simulated.throughput_tokens_per_s | tokens/s | the same in the simulator
        ratio.avg_imbalance | | live divided by simulated
        ratio.tpot_p95_s | | live divided by simulated
        ratio.throughput_tokens_per_s | | live divided by simulated
        steps | | steps whose end the router saw
        equal_steps | | first steps that have the loads of the simulator's, all of them
        lag | | time that the steps took, divided by the time that they should take
        sent_late_max_s | s | longest delay of the sender of requests
    """),
)
