"""Requests of one prompt length and unknown output length: the data of one Nested WAIT."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

from formulations.arrays import integer
from formulations.errors import InputError
from formulations.fluid import RequestClass
from formulations.problem_data import Validated
from formulations.rationals import exact_number
from formulations.thresholds.chain import SegmentChain, first_stages

_MAX_LENGTH = 10**9


@dataclass(frozen=True)
class PromptGroup(Validated):
    """Classes of one prompt length, and the segments that their stages are cut into.

    Parameters
    ----------
    prompt : int
        ``l >= 1`` [tokens].
    outputs : tuple of int
        ``l'_j >= 0``, increasing [tokens].
    rates : tuple of Fraction
        ``λ_j > 0`` [1/s].
    boundaries : tuple of int, optional
        ``b_1 < ... < b_L = l'_m``; by default every output length.

    Raises
    ------
    InputError
        If a value breaks its rule.
    """

    prompt: int
    outputs: tuple[int, ...]
    rates: tuple[Fraction, ...]
    boundaries: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        """Validate."""
        prompt = integer(self.prompt, "prompt", minimum=1, maximum=_MAX_LENGTH)
        outputs = _increasing(self.outputs, "outputs")
        rates = tuple(
            exact_number(rate, f"rates[{j}]", positive=True) for j, rate in enumerate(self.rates)
        )
        if len(rates) != len(outputs):
            raise InputError("rates", f"{len(rates)} for {len(outputs)} outputs", "give one each")
        given = outputs if self.boundaries is None else self.boundaries
        boundaries = _increasing(given, "boundaries")
        if boundaries[-1] != outputs[-1]:
            raise InputError(
                f"boundaries[{len(boundaries) - 1}]",
                f"{boundaries[-1]} is not the longest output",
                f"end with {outputs[-1]}",
            )
        self._set(prompt=prompt, outputs=outputs, rates=rates, boundaries=boundaries)

    @property
    def ends(self) -> tuple[int, ...]:
        """``b_1 .. b_L``: the last stage of each segment."""
        assert self.boundaries is not None
        return self.boundaries

    @property
    def entries(self) -> tuple[int, ...]:
        """``e_1 = 0``, ``e_i = b_{i−1} + 1``: the first stage of each segment."""
        return first_stages(self.ends)

    @cached_property
    def chain(self) -> SegmentChain:
        """The segments with what reaches them at the rates of the group."""
        classes = list(zip(self.outputs, self.rates, strict=True))
        reaching, total = [], Fraction(0)
        for entry in reversed(self.entries):
            while classes and classes[-1][0] >= entry:
                total += classes.pop()[1]
            reaching.append(total)
        reaching.reverse()
        passing = tuple(after / before for before, after in pairwise(reaching))
        return SegmentChain(self.prompt, self.ends, total, passing, len(self.outputs))

    def with_boundaries(self, boundaries: Sequence[int]) -> "PromptGroup":
        """Return the group with other segments."""
        return replace(self, boundaries=tuple(boundaries))


def prompt_groups(classes: Sequence[RequestClass]) -> tuple[PromptGroup, ...]:
    """Return the classes of each prompt length, in order of first appearance.

    Raises
    ------
    InputError
        If the outputs of a group do not increase, naming the class.
    """
    members: dict[int, list[RequestClass]] = {}
    for j, kind in enumerate(classes):
        others = members.setdefault(kind.prompt, [])
        if others and kind.output <= others[-1].output:
            raise InputError(
                f"classes[{j}].output",
                f"{kind.output} does not exceed {others[-1].output} of the class before it "
                f"with prompt {kind.prompt}",
                "sort them, and merge classes of equal length",
            )
        others.append(kind)
    return tuple(
        PromptGroup(prompt, tuple(k.output for k in kinds), tuple(k.rate for k in kinds))
        for prompt, kinds in members.items()
    )


def _increasing(values: object, where: str) -> tuple[int, ...]:
    if not isinstance(values, list | tuple) or not values:
        raise InputError(where, "no list of lengths", "give one at least")
    lengths = tuple(integer(v, f"{where}[{i}]", maximum=_MAX_LENGTH) for i, v in enumerate(values))
    for i, (before, after) in enumerate(pairwise(lengths), start=1):
        if after <= before:
            raise InputError(
                f"{where}[{i}]",
                f"{after} does not exceed {before}",
                "sort them, and merge classes of equal length",
            )
    return lengths
