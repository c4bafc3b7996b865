"""What a program says, in words: for files that others read, and for what a solution violates."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

_NAME = re.compile(r"(\w+)[\[(]([\d,]+)[\])]")

#: What is one, and stands in the plural.
_ONE = re.compile(r"(?<![\w./-])1 (request|round|start|token)s\b")


@dataclass(frozen=True)
class Words:
    """A program in words.

    Parameters
    ----------
    title, source : str
        What it is called here, and the paper and equation that it comes from.
    objective : str
        What is minimised, with its unit.
    variables : mapping
        Family of variables to its meaning.
    broken : mapping
        Family of constraints, of the program or its checker, to what is wrong where one does not
        hold: ``{0}``, ``{1}`` are its indices, ``{kind}`` the requests of its first one, ``{by}``
        the amount.
    """

    title: str = ""
    source: str = ""
    objective: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    broken: Mapping[str, str] = field(default_factory=dict)

    def told(self, name: str, by: object, groups: Sequence[str] = ()) -> str:
        """Return what is wrong where a constraint is violated, in a sentence.

        Parameters
        ----------
        name : str
            Constraint or variable, as statement, file or checker write it.
        by : object
            The amount.
        groups : sequence of str
            What the kinds of the program stand for.
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


def listed(members: Sequence[int], most: int = 12) -> str:
    """Return some requests in words, at most so many by number."""
    shown = ", ".join(str(i) for i in members[:most])
    more = f" and {len(members) - most} more" if len(members) > most else ""
    return f"request{'s' * (len(members) > 1)} {shown}{more}"
