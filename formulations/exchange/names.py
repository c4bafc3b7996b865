"""Names that every reader of LP and MPS files takes.

Brackets are operators in LP files (CPLEX's format documents the characters that it takes), so
``x[3,1]`` of the statement is ``x(3,1)`` in a file.
"""

import re

#: A word, not beginning with e (read as an exponent), and whole numbers in parentheses.
_LEGAL = re.compile(r"[A-DF-Za-df-z_]\w*(\(\d+(,\d+)*\))?", re.ASCII)
_LONGEST = 255
#: What LP files mean by a word, whatever its case; of CPLEX, Gurobi, SCIP, HiGHS, GLPK and CBC.
_RESERVED = frozenset(
    re.findall(
        r"\S+",
        """
        max maximise maximize maximum min minimise minimize minimum subject such st bound bounds
        bin binary binaries gen general generals int integer integers free inf infinity sec semi
        semis sos sos1 sos2 range ranges rhs name rows columns objsense end
        """,
    )
)


def file_name(name: str) -> str:
    """Return the name that a row or column of the statement has in a file.

    Raises
    ------
    ValueError
        If some reader would not take it.
    """
    written = name.replace("[", "(").replace("]", ")")
    if (
        len(written) > _LONGEST
        or _LEGAL.fullmatch(written) is None
        or written.lower() in _RESERVED
    ):
        raise ValueError(f"{name!r} cannot be written in LP and MPS files")
    return written
