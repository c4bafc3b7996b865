"""Compare the measurements of a router with a simulation of the same requests and machine."""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from bfio.decode.options import ArrivalMode, RunOptions
from bfio.decode.run import imbalance
from bfio.decode.simulation import simulate
from bfio.live.log import REQUESTS, about, read_steps
from bfio.workloads.trace_file import read_trace
from formulations.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from bfio.calibration.fit import StepTimeFit
    from bfio.decode.run import Run
    from formulations.arrays import FloatArray, IntArray


@dataclass(frozen=True)
class Served:
    """Times of served requests, and the loads of the steps that served them.

    Parameters
    ----------
    arrival_s, start_s, first_s, end_s : FloatArray
        Shape (n,): arrival, start on a worker, first and last token of each request [s].
    tokens : IntArray
        Shape (n,): output tokens of each request, at least 1.
    loads : IntArray
        Shape (K, G): loads of the workers at each step [tokens].
    """

    arrival_s: FloatArray
    start_s: FloatArray
    first_s: FloatArray
    end_s: FloatArray
    tokens: IntArray
    loads: IntArray

    def to_mapping(self) -> dict[str, float]:
        """Return the metrics, under the names of `bfio.decode.metrics`."""
        largest, total = self.loads.max(axis=1), self.loads.sum(axis=1)
        spent = float(self.end_s.max() - self.arrival_s.min())
        found: dict[str, float] = {
            "throughput_tokens_per_s": float(self.tokens.sum()) / spent,
            "avg_imbalance": float(imbalance(self.loads.shape[1], largest, total).mean()),
        }
        for name, values in (
            ("tpot", (self.end_s - self.start_s) / self.tokens),
            ("ttft", self.first_s - self.arrival_s),
            ("latency", self.end_s - self.arrival_s),
        ):
            found |= {
                f"{name}_p{share}_s": float(np.percentile(values, share)) for share in (50, 95)
            }
        return found


def of_run(run: Run) -> Served:
    """Return the times and loads of a drained simulation with timed arrivals and trajectory."""
    assert run.loads is not None
    assert run.arrival_s is not None
    start, end = run.start_s[run.start_step], run.end_s()
    first, last = end[run.first_token_step()], end[run.finish_step]
    return Served(run.arrival_s, start, first, last, run.emitted_tokens, run.loads)


class Replay:
    """A log of a router, and a simulation of its requests.

    Parameters
    ----------
    folder : Path
        Folder of the log.

    Raises
    ------
    InputError
        If the log cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.steps, loads = read_steps(folder)
        self.measured = _of_requests(folder / REQUESTS, loads)

    def simulated(self, fit: StepTimeFit) -> Run:
        """Simulate the requests with the policy, options and workers of the log.

        Parameters
        ----------
        fit : StepTimeFit
            Fitted constants of the step time.

        Raises
        ------
        InputError
            If the log lacks policy, options or workers, or its policy cannot be created.
        """
        told = about(self.folder)
        try:
            slots, memory = (told["machine"][name] for name in ("slots", "memory"))
            cluster = replace(fit.cluster(len(told["workers"]), 1), slots=slots, memory=memory)
            asked = RunOptions(arrivals=ArrivalMode.TIMED, **told["run"])
            given = dict(told["policy_options"])
        except (KeyError, TypeError, ValueError) as error:
            what = f"lacks the policy, options or workers of the router ({error})"
            raise InputError(str(self.folder), what, "record a log with this version") from None
        requests = read_trace(self.folder / REQUESTS)
        return simulate(requests, told["policy"], cluster, options=asked, **given)

    def beside(self, fit: StepTimeFit) -> dict[str, dict[str, float]]:
        """Return the measured and the simulated metrics."""
        found = of_run(self.simulated(fit))
        return {"measured": self.measured.to_mapping(), "simulated": found.to_mapping()}


def _of_requests(path: Path, loads: IntArray) -> Served:
    names = ("arrival_time_s", "sent_s", "first_token_s", "end_s", "output_tokens")
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = [
                [float(row[name]) for name in names]
                for row in csv.DictReader(file)
                if row["first_token_s"]
            ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        remedy = "use the file as the router wrote it"
        raise InputError(str(path), f"cannot be read ({error})", remedy) from None
    if not rows:
        raise InputError(str(path), "has no request with an output token", "log such requests")
    arrival, sent, first, end, tokens = np.array(rows).T
    return Served(arrival, sent, first, end, tokens.astype(np.int64), loads)
