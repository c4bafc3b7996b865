"""The same requests with longer or shorter outputs."""

from dataclasses import replace

import numpy as np

from bfio.workloads.workload import Workload
from formulations.arrays import IntArray, frozen, integer
from formulations.errors import InputError


def rescaled_outputs(outputs: IntArray, mean: int) -> IntArray:
    """Scale output lengths to a mean, in integers.

    ``o' = max(1, round(o·mean·n / Σo))``, halves up: exact for any machine and library.

    Parameters
    ----------
    outputs : IntArray
        Shape (n,), each >= 1 [tokens].
    mean : int
        Wanted mean [tokens]; rounding and the least length 1 may move it a little.
    """
    count, total = len(outputs), int(outputs.sum())
    scaled = [
        max(1, (2 * length * mean * count + total) // (2 * total)) for length in outputs.tolist()
    ]
    return frozen(np.array(scaled, dtype=np.int64))


def with_output_mean(workload: Workload, mean: int) -> Workload:
    """Return the workload with its output lengths scaled by `rescaled_outputs`.

    Raises
    ------
    InputError
        If the mean is below 1 or there is no request.
    """
    integer(mean, "output_mean", minimum=1)
    if len(workload) == 0:
        raise InputError(workload.name, "no outputs to rescale", "give a non-empty workload")
    return replace(
        workload,
        output_tokens=rescaled_outputs(workload.output_tokens, mean),
        provenance={**workload.provenance, "output_mean": mean},
    )
