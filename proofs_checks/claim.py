"""What a claim is: a statement with its source, hypotheses, check, and ways to break it."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from inspect import cleandoc, isfunction, signature
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from formulations.errors import InputError
from proofs_checks.evidence import Evidence, Outcome, Verdict, Verifier

if TYPE_CHECKING:
    import numpy as np

T = TypeVar("T")

_ID = re.compile(r"[a-z]+\.[a-z0-9]+([.-][a-z0-9]+)*")


class Kind(StrEnum):
    """What sort of evidence decides a claim."""

    IDENTITY = "identity"
    FINITE = "exact finite check"
    ASYMPTOTIC = "asymptotic"
    STATISTICAL = "statistical"
    COUNTEREXAMPLE = "counterexample"
    OUTSIDE = "not checkable here"


class Scope(StrEnum):
    """What of its source a claim speaks of."""

    #: A theorem, proposition, lemma, corollary or conjecture, or a numbered part of one.
    RESULT = "numbered result"
    #: A numbered equation, a definition, an algorithm: what later statements refer to.
    FORMULA = "formula"
    #: A step of a proof.
    STEP = "proof step"
    #: A sentence of the text, an illustration, a footnote.
    REMARK = "remark"
    #: Measured or simulated figures and what the text says of them.
    EXPERIMENT = "experiment"
    #: Not in the source: what follows from it, or a question of our own.
    OURS = "ours"


class Defect(StrEnum):
    """What is wrong with a statement that is refuted as printed."""

    #: A slip of the pen (index, sign, label): the source itself shows what is meant.
    MISPRINT = "misprint"
    #: True under a hypothesis that the source does not state.
    HYPOTHESIS = "missing hypothesis"
    #: A constant, factor or formula is wrong; with the right one the result stands.
    FORMULA = "wrong formula"
    #: A numbered result is false; what the correction says is another or a weaker one.
    RESULT = "false result"
    #: A sentence of a proof, a remark or an illustration is false, and no other constant mends it.
    SENTENCE = "false sentence"
    #: Nothing that is printed: what one might infer from it, or a question of our own.
    INFERENCE = "false inference"


class Effort(StrEnum):
    """How much a check looks through: tests, ``bfio check``, or hours."""

    QUICK = "quick"
    NORMAL = "normal"
    DEEP = "deep"


@dataclass(frozen=True)
class Context:
    """What a check is given.

    Parameters
    ----------
    effort : Effort
        How much to look through.
    rng : numpy.random.Generator
        The check's own generator; it draws from no other.
    """

    effort: Effort
    rng: "np.random.Generator"

    def choose(self, quick: T, normal: T, deep: T) -> T:
        """Return the entry of this effort."""
        return {Effort.QUICK: quick, Effort.NORMAL: normal, Effort.DEEP: deep}[self.effort]


#: Looks for evidence. Keywords beside the context are what mutations change.
Check: TypeAlias = Callable[..., Outcome]
C = TypeVar("C", bound=Callable[..., Any])


class Mutation:
    """A broken variant of a claim's check, which must not give the claim's verdicts.

    Parameters
    ----------
    name : str
        What is broken: a policy, a dropped hypothesis, a changed constant.
    **changes
        Keywords with which the claim's check is called to break that part.
    """

    def __init__(self, name: str, /, **changes: Any) -> None:
        self.name, self.changes = name, changes


#: Labels of a check's docstring, by the field of a claim that each fills in.
_LABELS = {
    "Source": "source",
    "Statement": "statement",
    "Formula": "formula",
    "Assumes": "hypotheses",
    "Summary": "summary",
    "Reading": "reading",
    "Correction": "correction",
}
_LABEL = re.compile(rf"^({'|'.join(_LABELS)}): ", re.MULTILINE)


def texts_of(check: object) -> dict[str, Any]:
    """Return the texts of a claim that the docstring of its check tells, by field.

    The first line is the title. Then come the other texts, each behind its label and a colon
    (`_LABELS`), further lines of it indented, with the hypotheses separated by semicolons.

    Raises
    ------
    InputError
        If a line behind the first label is neither indented nor has a label.
    """
    if not isfunction(check) or check.__doc__ is None:
        return {}
    title, *labelled = _LABEL.split(cleandoc(check.__doc__))
    if stray := re.search(r"\n(\S.*)", "".join(part.rstrip() for part in labelled)):
        what = f"{stray[1]!r} has no label"
        raise InputError(f"docstring of {check.__name__}", what, f"write {', '.join(_LABELS)}")
    title, *labelled = map(_joined, (title, *labelled))
    texts: dict[str, Any] = {"title": title.removesuffix(".")}
    for label, text in zip(labelled[::2], labelled[1::2], strict=True):
        texts[_LABELS[label]] = tuple(text.split("; ")) if label == "Assumes" else text
    return texts


def _joined(text: str) -> str:
    """Return a text in one line."""
    return re.sub(r"\n *", " ", text.strip())


@dataclass(frozen=True)
class Claim:
    """One statement of a paper, or our own, that a command can check.

    Its texts (title, source, statement, formula, hypotheses, summary, correction, reading) are
    keywords, or stand in the docstring of its check; see `texts_of`.

    Parameters
    ----------
    id : str
        Such as ``balance.lemma1``: the paper's short name, a dot, and the number or a short name.
    source : str
        Paper and number, such as ``"BF-IO paper, Lemma 1 (appendix C.1)"``.
    title : str
        A few words.
    statement : str
        The statement as its source has it, in plain text.
    formula : str
        The same as a formula.
    hypotheses : tuple of str
        What the statement assumes; the check's instances meet them.
    check : callable
        Looks for evidence; see `proofs_checks.evidence.Outcome`.
    kind : Kind, optional
        What decides it; by default a counterexample if it has a verifier, else an exact finite
        check.
    scope : Scope
        What of the source it is.
    summary : str
        One to three sentences for the claim's page: what its check finds, and why it is so.
    mutations : tuple of Mutation
        At least one, unless the claim is not checkable here.
    correction : str, optional
        The corrected statement, where the printed one does not hold, and why it does.
    defect : Defect, optional
        What is wrong with the printed statement, needed if it is refuted.
    reading : str, optional
        How the statement was read where its source leaves a choice.
    verify : callable, optional
        Verifier of counterexamples, needed if the claim is refuted as printed.
    proof : str, optional
        Name of the proof of what stands, as printed or as corrected: ``proofs/NAME.md``.
    named_as : str
        ``module:NAME`` or ``FILE.py:NAME`` of a claim from elsewhere, as the registry found it;
        its record lies beside that file.

    Raises
    ------
    InputError
        If the id is malformed, a text is missing, there is no mutation, one changes what the
        check does not take, or a false result is none that is numbered.
    """

    id: str
    check: Check
    source: str = ""
    title: str = ""
    statement: str = ""
    formula: str = ""
    hypotheses: tuple[str, ...] = ()
    kind: Kind | None = None
    scope: Scope = Scope.OURS
    summary: str = ""
    mutations: tuple[Mutation, ...] = ()
    correction: str | None = None
    defect: Defect | None = None
    reading: str | None = None
    verify: Verifier | None = None
    proof: str | None = None
    named_as: str = ""

    def __post_init__(self) -> None:
        """Fill in what the check's docstring tells, and validate."""
        for name, text in texts_of(self.check).items():
            if not getattr(self, name):
                object.__setattr__(self, name, text)
        if not _ID.fullmatch(self.id):
            raise InputError(f"claim {self.id!r}", "no valid id", "write e.g. balance.lemma1")
        for name in ("source", "title", "statement", "formula"):
            if not getattr(self, name).strip():
                raise InputError(f"claim {self.id}", f"no {name}", "write one")
        if not self.mutations and self.kind is not Kind.OUTSIDE:
            raise InputError(f"claim {self.id}", "no mutation", "add one that its check catches")
        if self.defect is Defect.RESULT and self.scope not in (Scope.RESULT, Scope.OURS):
            what = f"a false result, but a {self.scope}"
            raise InputError(f"claim {self.id}", what, "write Defect.SENTENCE")
        known = signature(self.check).parameters
        for mutation in self.mutations:
            if unknown := mutation.changes.keys() - known:
                what = f"mutation {mutation.name!r} changes {', '.join(sorted(unknown))}"
                raise InputError(f"claim {self.id}", what, "name keywords of the check")

    @property
    def decided_by(self) -> Kind:
        """What decides it, its ``kind`` or the default."""
        return self.kind or (Kind.FINITE if self.verify is None else Kind.COUNTEREXAMPLE)

    @property
    def command(self) -> str:
        """The command that checks it."""
        return f"bfio check {self.named_as or self.id}"


class Claims(list[Claim]):
    """Claims of a module, in a list that checks are added to where they stand.

    A decorator of each scope takes the claim's id, its mutations, and other parts of `Claim` by
    keyword. With a ``check`` among them the function only tells the texts::

        CLAIMS = Claims()

        @CLAIMS.step("own.sum", Mutation("one less", less=1))
        def _sum_check(context: Context, *, less: int = 0) -> Outcome:
            ...
    """

    def stated(
        self, scope: Scope, claim_id: str, *mutations: Mutation, **parts: Any
    ) -> Callable[[C], C]:
        """Add a claim of a scope."""

        def add(told: C) -> C:
            whole = {"check": told, **texts_of(told), **parts}
            self.append(Claim(claim_id, scope=scope, mutations=mutations, **whole))
            return told

        return add

    def result(self, claim_id: str, *mutations: Mutation, **parts: Any) -> Callable[[C], C]:
        """Add a numbered result, or a numbered part of one."""
        return self.stated(Scope.RESULT, claim_id, *mutations, **parts)

    def formula(self, claim_id: str, *mutations: Mutation, **parts: Any) -> Callable[[C], C]:
        """Add a formula, a definition or an algorithm."""
        return self.stated(Scope.FORMULA, claim_id, *mutations, **parts)

    def step(self, claim_id: str, *mutations: Mutation, **parts: Any) -> Callable[[C], C]:
        """Add a step of a proof."""
        return self.stated(Scope.STEP, claim_id, *mutations, **parts)

    def remark(self, claim_id: str, *mutations: Mutation, **parts: Any) -> Callable[[C], C]:
        """Add a sentence of the text, an illustration or a footnote."""
        return self.stated(Scope.REMARK, claim_id, *mutations, **parts)

    def experiment(self, claim_id: str, *mutations: Mutation, **parts: Any) -> Callable[[C], C]:
        """Add measured or simulated figures, or what the text says of them."""
        return self.stated(Scope.EXPERIMENT, claim_id, *mutations, **parts)

    def own(self, claim_id: str, *mutations: Mutation, **parts: Any) -> Callable[[C], C]:
        """Add a claim of our own."""
        return self.stated(Scope.OURS, claim_id, *mutations, **parts)

    def outside(self, claim_id: str, scope: Scope = Scope.EXPERIMENT) -> Callable[[C], C]:
        """Add what no computation here can decide: the summary of the docstring says why."""

        def check(context: Context) -> Outcome:
            return Evidence(Verdict.NOT_CHECKABLE)

        return self.stated(scope, claim_id, kind=Kind.OUTSIDE, check=check)
