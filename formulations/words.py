"""Plain-language descriptions of a program, for comments in files and for violated constraints."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

_NAME = re.compile(r"(\w+)[\[(]([\d,]+)[\])]")

#: Matches a plural noun after the number 1.
_ONE = re.compile(r"(?<![\w./-])1 (request|round|start|token)s\b")


@dataclass(frozen=True)
class Words:
    """The descriptions of one program.

    Parameters
    ----------
    title, source : str
        Name of the program, and the paper and equation that it comes from.
    objective : str
        The objective, with its unit.
    variables : mapping
        Family of variables to its meaning.
    broken : mapping
        Family of constraints, of the program or its checker, to the message for a violation:
        ``{0}``, ``{1}`` are the indices, ``{kind}`` the requests of the kind with the first index,
        ``{by}`` the amount.
    """

    title: str = ""
    source: str = ""
    objective: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    broken: Mapping[str, str] = field(default_factory=dict)

    def told(self, name: str, by: object, groups: Sequence[str] = ()) -> str:
        """Return a sentence that describes the violation of a constraint or bound.

        Parameters
        ----------
        name : str
            Constraint or variable, named as in the statement, the file or the checker.
        by : object
            Amount of the violation.
        groups : sequence of str
            One text per request kind of the program, which lists its requests.
        """
        match = _NAME.fullmatch(name)
        family = match.group(1) if match else name
        indices = [int(k) for k in match.group(2).split(",")] if match else []
        is_variable = family in self.variables
        template = "{name} is {by} outside its bounds" if is_variable else self.broken.get(family)
        kind = groups[indices[0]] if groups and indices and indices[0] < len(groups) else ""
        told = (template or "{name} is violated by {by}").format(
            *indices, name=name, by=by, kind=kind
        )
        return _ONE.sub(r"1 \1", told)


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless the number is 1."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"


def listed(members: Sequence[int], most: int = 12) -> str:
    """Return a text that lists request numbers, at most ``most`` of them."""
    shown = ", ".join(str(i) for i in members[:most])
    more = f" and {len(members) - most} more" if len(members) > most else ""
    return f"request{'s' * (len(members) > 1)} {shown}{more}"
