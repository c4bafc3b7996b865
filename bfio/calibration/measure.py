"""Measure decode steps and write them to a file that `bfio fit` reads."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from bfio.calibration.measure_options import MeasureOptions
from bfio.workloads.tables import atomic_file
from formulations.errors import InputError

_HEADER = "duration_s,load_0,batch,length,device\n"


def require_torch() -> None:
    """Raise an error if PyTorch is not installed.

    Raises
    ------
    InputError
        If it is not installed.
    """
    if find_spec("torch") is None:
        raise InputError("measure", "PyTorch is not installed", "pip install 'bfio[gpu]'")


def measure_steps(
    path: str | Path,
    options: MeasureOptions | None = None,
    *,
    overwrite: bool = False,
    on_step: Callable[[], None] = lambda: None,
) -> str:
    """Time decode steps, write one row each, and return the name of the device.

    Parameters
    ----------
    path : str or Path
        Output file (.csv); it only appears when it is complete.
    options : MeasureOptions, optional
        Options of the measurement.
    overwrite : bool
        Whether an existing file may be replaced.
    on_step : callable
        Called after each timed step.

    Raises
    ------
    InputError
        If PyTorch is not installed, the device is missing or too small, or the file exists.
    """
    require_torch()
    from bfio.calibration.decode_loop import timed_steps

    options = options or MeasureOptions()
    with atomic_file(Path(path), overwrite=overwrite) as (stream, _):
        device, steps = timed_steps(options)
        stream.write(_HEADER.encode())
        for step in steps:
            load = options.batch * step.length
            cells = f"{step.duration_s!r},{load},{options.batch},{step.length}"
            # A comma in the name would split the cell.
            stream.write(f"{cells},{device.replace(',', ' ')}\n".encode())
            on_step()
    return device
