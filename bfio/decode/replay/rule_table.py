"""Tables of the rules that a run must keep."""

from collections.abc import Callable

from bfio.decode.replay.record import Replay

#: Relative error allowed in a duration or a sum of two times.
ROUNDING = 1e-12

Rule = Callable[[Replay], int]


class RuleTable(dict[str, Rule]):
    """Rules by name, each of which counts the requests, steps or cells at fault."""

    def rule(self, name: str) -> Callable[[Rule], Rule]:
        """Register the decorated function; the first line of its docstring says what it checks."""

        def register(rule: Rule) -> Rule:
            self[name] = rule
            return rule

        return register
