"""Draw the requests of benchmarks: synthetic ones, or a resampled trace cut."""

import hashlib
from functools import cache
from pathlib import Path

import numpy as np

from bfio.workloads.generators import generate, resample, with_output_mean
from bfio.workloads.lengths import Geometric, Lognormal
from bfio.workloads.trace_file import read_trace
from bfio.workloads.workload import Workload

#: Lognormal prompts (median 800, sigma 1.1, at most 32,768), geometric outputs.
SYNTHETIC = "lognormal-geometric"

_PROMPTS = Lognormal(median=800, sigma=1.1, maximum=32_768)


def draw(name: str, num_requests: int, output_mean: int, seed: int, folder: Path) -> Workload:
    """Draw a workload of a benchmark. Equal arguments and files give equal workloads.

    Parameters
    ----------
    name : str
        `SYNTHETIC`, or a trace file in ``folder``. Its outputs are rescaled to the mean, then
        requests are drawn with replacement, keeping prompt and output together.
    num_requests : int
        Number of requests.
    output_mean : int
        Mean output length [tokens].
    seed : int
        Seed.
    folder : Path
        Folder of trace files.
    """
    rng = np.random.default_rng(seed)
    if name == SYNTHETIC:
        return generate(num_requests, _PROMPTS, Geometric(output_mean), rng=rng)
    return resample(_rescaled_trace(folder / name, output_mean), num_requests, rng=rng)


@cache
def requests_digest(name: str, folder: Path) -> str:
    """Return a digest of the named trace file; empty for synthetic requests.

    Raises
    ------
    InputError
        If the trace does not exist.
    """
    if name == SYNTHETIC:
        return ""
    read_trace(folder / name)
    return hashlib.sha256((folder / name).read_bytes()).hexdigest()[:16]


@cache
def _rescaled_trace(path: Path, mean: int) -> Workload:
    return with_output_mean(read_trace(path), mean)
