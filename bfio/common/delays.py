"""How delays are summed up, the same for every simulator."""

import numpy as np

from formulations.arrays import FloatArray

_PERCENTILES = (50, 95, 99)


def summary_of(name: str, values: FloatArray, unit: str = "") -> dict[str, float | None]:
    """Return mean, percentiles and maximum under ``name_mean``, ``name_p50`` and so on.

    Parameters
    ----------
    name : str
        What they begin with.
    values : FloatArray
        Shape (n,); percentiles interpolate linearly. Without any, all are None.
    unit : str
        What they end with.
    """
    labels = ("mean", *(f"p{q}" for q in _PERCENTILES), "max")
    keys = [f"{name}_{label}{unit}" for label in labels]
    if not len(values):
        return dict.fromkeys(keys)
    found = [values.mean(), *np.percentile(values, _PERCENTILES), values.max()]
    return {key: float(value) for key, value in zip(keys, found, strict=True)}
