"""The requests that benchmarks run on, by name: one synthetic law, and resampled trace cuts."""

from functools import cache
from pathlib import Path

import numpy as np

from bfio.workloads.generators import generate, resample
from bfio.workloads.lengths import Geometric, Lognormal
from bfio.workloads.reader import read_trace
from bfio.workloads.rescaling import rescaled_outputs
from bfio.workloads.workload import Workload
from formulations.errors import InputError

#: Lognormal prompts (median 800, sigma 1.1, cut off at 32,768), geometric outputs.
SYNTHETIC = "lognormal-geometric"
#: Trace cuts that the step cases use, by file name without suffix.
TRACES = ("bfio_burstgpt_8000_untimed", "azure_conv_2023")

_PROMPTS = Lognormal(median=800, sigma=1.1, maximum=32_768)


def draw(name: str, num_requests: int, output_mean: int, seed: int, data: Path) -> Workload:
    """Draw a workload; equal arguments (and equal files) give equal workloads.

    Parameters
    ----------
    name : str
        `SYNTHETIC`, or a trace file in ``data`` without its suffix ``.csv.gz``: its outputs are
        rescaled to the mean, then requests are drawn with replacement, prompt with output.
    num_requests : int
        Number of requests.
    output_mean : int
        Mean output length [tokens].
    seed : int
        Seed.
    data : Path
        Folder of trace files.

    Raises
    ------
    InputError
        If there is no such trace.
    """
    require(name, data)
    rng = np.random.default_rng(seed)
    if name == SYNTHETIC:
        return generate(num_requests, _PROMPTS, Geometric(output_mean), rng=rng)
    return resample(_rescaled_trace(_trace_path(name, data), output_mean), num_requests, rng=rng)


def require(name: str, data: Path) -> None:
    """Refuse a workload whose trace file is not there, before anything is measured.

    Raises
    ------
    InputError
        If there is no such trace.
    """
    path = _trace_path(name, data)
    if name != SYNTHETIC and not path.is_file():
        raise InputError(str(path), "no such trace", "give --data, or run a synthetic case")


def _trace_path(name: str, data: Path) -> Path:
    return data / f"{name}.csv.gz"


@cache
def _rescaled_trace(path: Path, mean: int) -> Workload:
    trace = read_trace(path)
    return Workload(
        trace.prompt_tokens,
        rescaled_outputs(trace.output_tokens, mean),
        None,
        trace.name,
        {**trace.provenance, "output_mean": mean},
    )
