"""Results of solver runs, as objects, pandas data frames and HTML for notebooks.

Termination (why a solve stopped) and quality of the answer are separate fields.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from fractions import Fraction
from functools import cache
from html import escape
from importlib.metadata import version
from itertools import zip_longest
from typing import Any, ClassVar, Generic, TypeVar, cast

import numpy as np

from formulations.errors import InputError
from formulations.scalars import percent


class Termination(StrEnum):
    """Why a run stopped, and whether its answer is proven."""

    #: The objective, recomputed in integers, equals a bound that integers prove.
    OPTIMAL = "optimal"
    #: A checked solution without such a proof (a heuristic, or a float solver that finished).
    FEASIBLE = "feasible"
    #: The linear relaxation was solved: a bound, and no solution.
    RELAXED = "relaxed"
    #: No solution exists.
    INFEASIBLE = "infeasible"
    #: The time limit was reached; there may or may not be a solution.
    TIME_LIMIT = "time_limit"
    #: The work limit was reached, at the same point on every machine.
    WORK_LIMIT = "work_limit"
    #: The solver stopped for another reason, recorded in the solver details.
    FAILED = "failed"


class BoundKind(StrEnum):
    """How a bound was derived."""

    #: Derived in integer arithmetic.
    INTEGER = "integer"
    #: Reported by a floating-point solver, subject to its tolerances.
    FLOAT = "float"


class TieRule(StrEnum):
    """Which of several equally good solutions is returned."""

    #: Lexicographically smallest: requests in arrival order, lower workers first, waiting last.
    LEXICOGRAPHIC = "lexicographic"
    #: Oldest request first, then lowest worker, in the order of the heuristic.
    OLDEST_FIRST = "oldest-first"
    #: The smallest secondary objective, proven (`formulations.second`).
    SECOND = "second"
    #: The first one that the solver found.
    BACKEND = "backend"


S = TypeVar("S")


def check_bound(method: str, objective: Any, bound: Any, *, checked: bool) -> None:
    """Refuse a lower bound above the objective of a checked solution.

    Raises
    ------
    InputError
        If the bound is above the objective, which shows an error in this project's method.
    """
    if checked and objective is not None and bound is not None and bound > objective:
        what = f"the lower bound {bound} exceeds the objective {objective} of a checked solution"
        raise InputError(method, what, "report this as an error of bfio, and use another method")


def own_solver(**details: object) -> dict[str, object]:
    """Return the solver details of a result of one of this project's methods."""
    return {"name": "bfio", "version": _own_version(), **details}


@cache
def _own_version() -> str:
    # Cached: reading the version takes a millisecond, as long as many solves.
    return version("bfio")


def origin(solver: Mapping[str, object], proof: str | None, *, bounded: bool = False) -> str:
    """Return one line that names the solver and the proof of its result.

    Parameters
    ----------
    solver : mapping
        Solver details of a result.
    proof : str, optional
        Text that names the proof; None if there is none.
    bounded : bool
        Whether the lower bound was derived in integers, whether or not it proves an optimum.
    """
    ran = " ".join(str(solver[key]) for key in ("name", "version") if solver.get(key))
    if proof:
        said = f"proven by {proof}"
    elif solver.get("refuted"):
        said = "a checked solution refutes the solver's claim; not proven in integers"
    elif solver.get("claimed") == "infeasible":
        said = "the solver claims that there is no solution; not proven"
    elif solver.get("finished"):
        said = "the solver claims optimality; not proven in integers"
    else:
        said = "the bound is proven, the optimum is not" if bounded else "nothing proven"
    return f"solver {ran or 'unknown'}; {said}"


@dataclass(frozen=True, kw_only=True)
class Solved:
    """Fields common to the results of all solves.

    Parameters
    ----------
    method : str
        The method: a backend, a method of this project, or ``brute-force``.
    termination : Termination
        ``OPTIMAL`` only if the objective equals a bound derived exactly.
    seconds : float
        Wall-clock time of the solve itself.
    compile_seconds : float
        Wall-clock time to write the program in the solver's form.
    solver : mapping
        Name, version, raw status and options.
    proof : str, optional
        The proof of optimality or infeasibility; None if there is none.
    ticks : int, optional
        Ticks used (`formulations.deadline`), equal on every machine; None if they are not counted.
    """

    #: Names of the fields that together are the solution.
    solution_fields: ClassVar[tuple[str, ...]] = ()

    method: str
    termination: Termination
    seconds: float = 0.0
    compile_seconds: float = 0.0
    solver: Mapping[str, object] = field(default_factory=dict)
    proof: str | None = None
    ticks: int | None = None

    def __init_subclass__(cls, **keywords: Any) -> None:
        """Give every result the short ``repr`` of this class instead of that of a dataclass."""
        super().__init_subclass__(**keywords)
        cls.__repr__ = Solved.__repr__  # type: ignore[method-assign]

    def _facts(self) -> dict[str, str]:
        """Return the values to show first, as texts by name."""
        names = ("objective", "value", "bound")
        given = {
            name: value
            for name in names
            if (value := _cell(getattr(self, name, None))) is not None
        }
        texts = {n: str(v) if isinstance(v, int | str) else f"{v:.9g}" for n, v in given.items()}
        return texts | {"time": f"{self.seconds * 1e3:.1f} ms"}

    def __repr__(self) -> str:
        facts = ", ".join(f"{name} {text}" for name, text in self._facts().items())
        return f"<{type(self).__name__} {self.method}: {self.status}, {facts}>"

    def _repr_html_(self) -> str:
        rows = {"status": self.status} | self._facts() | {"proof": self.proof or "none"}
        title = f"{type(self).__name__} by {self.method}"
        return html_table(("", ""), [list(row) for row in rows.items()], title)

    @property
    def status(self) -> str:
        """The outcome in words: ``optimal, proven``, ``stopped, gap 3 %``, ``bound only``, ..."""
        gap = getattr(self, "gap", None)
        if self.termination in (Termination.TIME_LIMIT, Termination.WORK_LIMIT):
            return "stopped, no gap known" if gap is None else f"stopped, gap {percent(gap)}"
        if self.termination is Termination.FEASIBLE:
            if self.solver.get("finished"):
                return "solved, bound in floats"
            return "feasible" if gap is None else f"feasible, gap {percent(gap)}"
        words = {Termination.OPTIMAL: "optimal, proven", Termination.RELAXED: "bound only"}
        return words.get(self.termination, self.termination.value)

    def origin(self) -> str:
        """Return one line that names the solver and the proof of the result."""
        return origin(self.solver or {"name": self.method}, self.proof)

    @property
    def is_optimal(self) -> bool:
        """Whether the solution is proven optimal in exact arithmetic."""
        return self.termination is Termination.OPTIMAL

    @property
    def solution(self) -> Any:
        """The solution: its field, or the tuple of its fields if there are several, or None."""
        parts = tuple(getattr(self, name) for name in self.solution_fields)
        if any(part is None for part in parts):
            return None
        return parts[0] if len(parts) == 1 else parts


@dataclass(frozen=True, kw_only=True)
class ProgramResult(Solved, Generic[S]):
    """The termination of a solve, its checked solution and its bound; None if missing.

    Each program adds the fields of its solution and lists their names in `solution_fields`.

    Parameters
    ----------
    objective : int, optional
        Objective of the solution, recomputed in integers; None iff there is no solution.
    bound : int, optional
        Lower bound on the objective.
    bound_kind : BoundKind
        Whether the bound was derived in integers.
    violations : mapping
        Violations found by the checker; empty for a feasible solution.
    scale : int
        Units of objective and bound per unit of the problem's objective: a factor that makes
        fractional weights or times integers.
    """

    objective: int | None = None
    bound: int | None = None
    bound_kind: BoundKind = BoundKind.INTEGER
    violations: Mapping[str, int] = field(default_factory=dict)
    scale: int = 1

    def __post_init__(self) -> None:
        """Raise if the fields contradict each other."""
        if self.is_optimal and not (
            self.objective is not None
            and self.objective == self.bound
            and self.bound_kind is BoundKind.INTEGER
            and not self.violations
        ):
            raise ValueError(
                "an optimal result needs a feasible solution and an equal integer bound"
            )
        check_bound(self.method, self.objective, self.bound, checked=not self.violations)
        parts = [getattr(self, name) for name in self.solution_fields]
        if len({value is None for value in (self.objective, *parts)}) > 1:
            raise ValueError(f"objective, {', '.join(self.solution_fields)} come together")

    @classmethod
    def fields_of(cls, solution: S | None) -> dict[str, Any]:
        """Return the result fields for a solution."""
        if solution is None:
            return {}
        single = len(cls.solution_fields) == 1
        parts: Any = (solution,) if single else solution
        return dict(zip(cls.solution_fields, parts, strict=True))

    def origin(self) -> str:
        """Return one line that names the solver and the proof of the result."""
        bounded = self.bound is not None and self.bound_kind is BoundKind.INTEGER
        return origin(self.solver or {"name": self.method}, self.proof, bounded=bounded)

    def required_solution(self) -> S:
        """Return the solution.

        Raises
        ------
        InputError
            If the run found no solution.
        """
        if self.solution is None:
            raise InputError(
                self.method, f"found no solution ({self.termination})", "raise the time limit"
            )
        return cast("S", self.solution)

    @property
    def gap(self) -> float | None:
        """``(objective - bound) / objective``; None if one is missing."""
        if self.objective is None or self.bound is None:
            return None
        return 0.0 if self.objective == 0 else (self.objective - self.bound) / self.objective

    def summary(self) -> str:
        """Return termination, objective, bound and solution as a few lines of text."""
        work = "" if self.ticks is None else f", {self.ticks:,} ticks of work"
        lines = [f"{self.method}: {self.termination} in {self.seconds * 1e3:.1f} ms{work}"]
        if self.objective is not None:
            lines.append(f"objective {self.objective}, bound {self.bound} ({self.bound_kind})")
        elif self.bound is not None:
            lines.append(f"bound {self.bound} ({self.bound_kind}), no solution")
        if self.scale != 1:
            lines.append(f"objective and bound are scaled by {self.scale}")
        lines.append(self.origin())
        if self.solution is not None:
            lines.append(self.solution_text())
        lines += [f"violated: {name} by {amount}" for name, amount in self.violations.items()]
        return "\n".join(lines)

    def solution_text(self) -> str:
        """Return the solution as one line of text."""
        return ", ".join(f"{name} {getattr(self, name)}" for name in self.solution_fields)

    def to_frame(self) -> Any:
        """Return the solution as a pandas data frame, one row per request or class.

        Raises
        ------
        InputError
            If pandas is not installed.
        """
        parts = {name: list(getattr(self, name) or ()) for name in self.solution_fields}
        lines = zip_longest(*parts.values())
        return data_frame([dict(zip(parts, line, strict=True)) for line in lines])

    def to_mapping(self) -> dict[str, object]:
        """Return the result as a JSON document."""
        return {
            "method": self.method,
            "termination": self.termination.value,
            "objective": self.objective,
            "bound": self.bound,
            "bound_kind": None if self.bound is None else self.bound_kind.value,
            "violations": dict(self.violations),
            "seconds": self.seconds,
            "compile_seconds": self.compile_seconds,
            "ticks": self.ticks,
            "solver": dict(self.solver),
            "proof": self.proof,
            **{
                name: None if (part := getattr(self, name)) is None else list(part)
                for name in self.solution_fields
            },
        }


def data_frame(rows: Sequence[Mapping[str, object]]) -> Any:
    """Return rows as a data frame of pandas.

    Raises
    ------
    InputError
        If pandas is not installed.
    """
    try:
        import pandas
    except ImportError:
        raise InputError("to_frame", "pandas is not installed", "pip install pandas") from None
    return pandas.DataFrame(list(rows))


def fields_frame(result: object) -> Any:
    """Return the fields of a dataclass as a data frame, one row per request or class.

    Columns are the tuples and one-dimensional arrays of the largest length. Without any, the frame
    has one row with the numbers and texts. Fractions become floats.

    Raises
    ------
    InputError
        If pandas is not installed.
    """
    given = {
        entry.name: value.tolist() if isinstance(value, np.ndarray) and value.ndim == 1 else value
        for entry in fields(cast("Any", result))
        if (value := getattr(result, entry.name)) is not None
    }
    parts = {name: value for name, value in given.items() if isinstance(value, tuple | list)}
    if length := max(map(len, parts.values()), default=0):
        columns = {name: part for name, part in parts.items() if len(part) == length}
        lines = [{name: _cell(part[i]) for name, part in columns.items()} for i in range(length)]
        return data_frame(lines)
    plain = (str, int, float, Fraction)
    return data_frame([{n: _cell(v) for n, v in given.items() if isinstance(v, plain)}])


def _cell(value: object) -> object:
    """Return a value converted for a data frame column: fractions to floats, objects to text."""
    if isinstance(value, Fraction):
        return float(value)
    if isinstance(value, tuple):
        return tuple(map(_cell, value))
    return value if value is None or isinstance(value, bool | int | float) else str(value)


def html_paragraphs(sentences: Sequence[str]) -> str:
    """Return each sentence as an HTML paragraph."""
    return "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    """Return an HTML table; the first column is left-aligned, the others right-aligned.

    Styles are inline, so that the table looks the same in every viewer. A wide table scrolls
    sideways.
    """

    def cell(text: str, tag: str, side: str) -> str:
        style = f"text-align: {side}; white-space: nowrap; padding: 0.1em 0.6em"
        return f'<{tag} style="{style}">{escape(text).replace(chr(10), "<br>")}</{tag}>'

    def line(cells: Sequence[str], tag: str) -> str:
        first, *others = cells
        numbers = "".join(cell(text, tag, "right") for text in others)
        return f"<tr>{cell(first, tag, 'left')}{numbers}</tr>"

    body = "".join(line(row, "td") for row in rows)
    return (
        f'<div style="overflow-x: auto" tabindex="0"><table><caption>{escape(caption)}</caption>'
        f"<thead>{line(head, 'th')}</thead><tbody>{body}</tbody></table></div>"
    )
