"""Arguments of rows about one engine in stages: its classes of requests, their rates, its worker.

A study names a file as ``bfio fluid`` reads it; other arguments change its worker and its rates.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from bfio.common.options import (
    POSITIVE,
    RATIONAL,
    TEXT,
    CheckedOptions,
    checked,
    names_of,
    option,
    whole,
)
from bfio.studies.row import RowContext
from formulations.errors import InputError
from formulations.fluid import FluidProblem, FluidWorker, RequestClass, work_rate
from formulations.rationals import exact_number
from formulations.scalars import MAX_TOKENS
from formulations.thresholds.problem import prompt_groups

_EXACT = checked(RATIONAL, exact_number)


@dataclass(frozen=True)
class ClassOptions(CheckedOptions):
    """The file of classes, its worker, and how its classes are taken.

    Raises
    ------
    InputError
        If a value breaks its rule.
    """

    fluid: str | None = option(
        None, TEXT, "FILE", "the file, relative to the study's `data` folder"
    )
    d0: Fraction | None = option(None, POSITIVE, "S", "in the place of the file's [s]")
    d1: Fraction | None = option(None, _EXACT, "S", "in the place of the file's [s]")
    memory: int | None = option(
        None, whole(1, MAX_TOKENS), "C", "in the place of the file's [tokens]"
    )
    spread: str | None = option(
        None,
        TEXT,
        "HOW",
        "`none`; `classes`: a class is a bin, outputs are uniform on l'_{j−1}+1 .. l'_j; "
        "`requests` (`wait` only): the same, but the policy knows the bins only",
    )

    def worker(self, default: FluidWorker | None = None) -> FluidWorker:
        """Return the worker that ``d0``, ``d1`` and ``memory`` describe.

        Parameters
        ----------
        default : FluidWorker, optional
            What is not given; without it all three are needed.

        Raises
        ------
        InputError
            If one is missing.
        """
        values = {}
        for name in ("d0", "d1", "memory"):
            value = getattr(self, name)
            if value is None and default is None:
                what = "a trace says nothing of the worker"
                raise InputError(f"argument {name}", "missing", what)
            values[name] = getattr(default, name) if value is None else value
        return FluidWorker(**values)


def fluid_of(options: ClassOptions, context: RowContext) -> FluidProblem:
    """Read the file of classes, with the worker that the options change.

    Raises
    ------
    InputError
        If it cannot be read, has several workers, or a value breaks its rule.
    """
    if options.fluid is None:
        raise InputError("argument fluid", "missing", "name a file as bfio fluid reads it")
    try:
        found = FluidProblem.from_json(_text(context.folder / options.fluid))
        worker = found.single_worker()
    except InputError as error:
        raise InputError(f"{options.fluid}: {error.where}", error.what, error.remedy) from None
    return replace(found, workers=(options.worker(worker),))


@dataclass(frozen=True)
class WantedRate(CheckedOptions):
    """What the rates are to be; those there are without either.

    The *load* is the work rate A over ``K = C/(d0 + d1·C)``: with 1 the equilibrium of all that
    arrives just fits the memory. With finite memory that is less than ``d1·A = 1``.

    Parameters
    ----------
    load : Fraction, optional
        Of all classes together.
    rate : Fraction, optional
        Of all classes together [1/s].

    Raises
    ------
    InputError
        If both are given, or one is 0.
    """

    load: Fraction | None = option(
        None, POSITIVE, "LOAD", "all rates are multiplied so that together they offer this load"
    )
    rate: Fraction | None = option(None, POSITIVE, "R", "or so that together they are this [1/s]")

    def __post_init__(self) -> None:
        """Validate, and read numbers exactly."""
        if self.load is not None and self.rate is not None:
            raise InputError("load", "rate is given as well", "remove one of the two")
        super().__post_init__()

    def factor(self, rate: Fraction, load: Fraction) -> Fraction:
        """Return what rates that offer this together are multiplied by."""
        if self.load is not None:
            return self.load / load
        return Fraction(1) if self.rate is None else self.rate / rate

    def met_by(self, offered: FluidProblem) -> Fraction:
        """Return what the rates of the classes that arrive are multiplied by."""
        return self.factor(total_rate(offered), offered_load(offered))


CLASS_ARGUMENTS = names_of(ClassOptions, WantedRate)


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
            outputs = range(min(start + 1, end), end + 1)
            classes += [RequestClass(rate / len(outputs), group.prompt, o) for o in outputs]
    return replace(problem, classes=tuple(classes))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError("file", f"cannot be read ({error.strerror})", "check its name") from None
    except UnicodeDecodeError:
        raise InputError("file", "not UTF-8 text", "give a JSON text file") from None
