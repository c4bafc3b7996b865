"""Arguments of rows about one engine in stages: its classes of requests, their rates, its worker.

A study names a file as ``bfio fluid`` reads it; other arguments change its worker and its rates.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from bfio.studies.row import RowContext
from bfio.studies.row_parts.arguments import Arguments
from formulations.arrays import integer
from formulations.errors import InputError
from formulations.fluid import FluidProblem, FluidWorker, RequestClass, work_rate
from formulations.rationals import exact_number
from formulations.thresholds.prompt_group import prompt_groups

#: What stands in the place of the file's worker.
WORKER_ARGUMENTS = ("d0", "d1", "memory")
CLASS_ARGUMENTS = ("fluid", *WORKER_ARGUMENTS, "spread", "rate", "load")


def fluid_of(given: Arguments, context: RowContext) -> FluidProblem:
    """Read the file of classes, with the worker that the arguments change.

    Raises
    ------
    InputError
        If it cannot be read, has several workers, or a value breaks its rule.
    """
    name = given.optional_text("fluid")
    if name is None:
        raise InputError("argument fluid", "missing", "name a file as bfio fluid reads it")
    try:
        found = FluidProblem.from_json(_text(context.folder / name))
        worker = found.single_worker()
    except InputError as error:
        raise InputError(f"{name}: {error.where}", error.what, error.remedy) from None
    return replace(found, workers=(worker_of(given, worker),))


def worker_of(given: Arguments, default: FluidWorker | None = None) -> FluidWorker:
    """Return the worker that ``d0``, ``d1`` and ``memory`` describe.

    Parameters
    ----------
    given : Arguments
        Those of the row.
    default : FluidWorker, optional
        What is not given; without it all three are needed.

    Raises
    ------
    InputError
        If one is missing or breaks its rule.
    """
    values: dict[str, Any] = {}
    for name in WORKER_ARGUMENTS:
        if given.has(name):
            is_count = name == "memory"
            values[name] = given.given[name] if is_count else given.rational(name, "")
        elif default is None:
            raise InputError(f"argument {name}", "missing", "a trace says nothing of the worker")
        else:
            values[name] = getattr(default, name)
    return FluidWorker(
        d0=exact_number(values["d0"], "argument d0", positive=True),
        d1=exact_number(values["d1"], "argument d1"),
        memory=integer(values["memory"], "argument memory", minimum=1),
    )


@dataclass(frozen=True)
class WantedRate:
    """What the rates are to be; those there are without either.

    The *load* is the work rate A over ``K = C/(d0 + d1·C)``: with 1 the equilibrium of all that
    arrives just fits the memory. With finite memory that is less than ``d1·A = 1``.

    Parameters
    ----------
    load : Fraction, optional
        Of all classes together.
    rate : Fraction, optional
        Of all classes together [1/s].
    """

    load: Fraction | None
    rate: Fraction | None

    @staticmethod
    def of(given: Arguments) -> "WantedRate":
        """Read ``load`` or ``rate``.

        Raises
        ------
        InputError
            If both are given, or one is 0.
        """
        given.exclude("rate", "load")
        return WantedRate(given.exact("load", positive=True), given.exact("rate", positive=True))

    def factor(self, rate: Fraction, load: Fraction) -> Fraction:
        """Return what rates that offer this together are multiplied by."""
        if self.load is not None:
            return self.load / load
        return Fraction(1) if self.rate is None else self.rate / rate

    def met_by(self, offered: FluidProblem) -> Fraction:
        """Return what the rates of the classes that arrive are multiplied by."""
        return self.factor(total_rate(offered), offered_load(offered))


def offered_load(problem: FluidProblem) -> Fraction:
    """Return ``A/K`` of one worker, see `WantedRate`."""
    return work_rate(problem.classes) / problem.single_worker().capacity


def total_rate(problem: FluidProblem) -> Fraction:
    """Return the rate of all classes together [1/s]."""
    return sum((kind.rate for kind in problem.classes), Fraction(0))


def multiplied(problem: FluidProblem, factor: Fraction) -> FluidProblem:
    """Return the problem with all rates multiplied."""
    classes = (replace(kind, rate=kind.rate * factor) for kind in problem.classes)
    return replace(problem, classes=tuple(classes))


def spread(problem: FluidProblem) -> FluidProblem:
    """Take classes for bins: outputs of class j are uniform on ``l'_{j−1} + 1 .. l'_j``.

    The bins of each prompt length follow each other from output 1 on; a first class without
    output stays as it is.

    Raises
    ------
    InputError
        If outputs of equal prompts do not increase.
    """
    classes = []
    for group in prompt_groups(problem.classes):
        starts = (0, *group.outputs)
        for start, end, rate in zip(starts, group.outputs, group.rates, strict=False):
            classes += _evenly(group.prompt, rate, range(min(start + 1, end), end + 1))
    return replace(problem, classes=tuple(classes))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError("file", f"cannot be read ({error.strerror})", "check its name") from None
    except UnicodeDecodeError:
        raise InputError("file", "not UTF-8 text", "give a JSON text file") from None


def _evenly(prompt: int, rate: Fraction, outputs: Sequence[int]) -> list[RequestClass]:
    return [RequestClass(rate / len(outputs), prompt, output) for output in outputs]
