"""Claims: statements with their source, hypotheses, check, and mutations of the check."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from inspect import cleandoc, isfunction, signature
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from formulations.errors import InputError
from proofs_checks.evidence import Data, Evidence, Examination, Outcome, Verdict, Verifier
from proofs_checks.search import Domain

if TYPE_CHECKING:
    import numpy as np

T = TypeVar("T")

_ID = re.compile(r"[a-z]+\.[a-z0-9]+([.-][a-z0-9]+)*")


class Kind(StrEnum):
    """The kind of evidence that decides a claim."""

    IDENTITY = "identity"
    FINITE = "exact finite check"
    ASYMPTOTIC = "asymptotic"
    STATISTICAL = "statistical"
    COUNTEREXAMPLE = "counterexample"
    OUTSIDE = "not checkable here"


class Scope(StrEnum):
    """The part of its source that a claim is about."""

    #: A theorem, proposition, lemma, corollary or conjecture, or a numbered part of one.
    RESULT = "numbered result"
    #: A numbered equation, a definition, an algorithm: what later statements refer to.
    FORMULA = "formula"
    #: A step of a proof.
    STEP = "proof step"
    #: A sentence of the text, an illustration, a footnote.
    REMARK = "remark"
    #: Measured or simulated figures, and the text's statements about them.
    EXPERIMENT = "experiment"
    #: Not in the source: a consequence of it, or a question of our own.
    OURS = "ours"


class Defect(StrEnum):
    """The kind of error in a statement that is refuted as printed."""

    #: A misprint (index, sign, label): the source itself shows what is meant.
    MISPRINT = "misprint"
    #: True under a hypothesis that the source does not state.
    HYPOTHESIS = "missing hypothesis"
    #: A constant, factor or formula is wrong; the result holds with the right one.
    FORMULA = "wrong formula"
    #: A numbered result is false; the correction is a different or weaker statement.
    RESULT = "false result"
    #: A sentence of a proof, a remark or an illustration is false, whatever its constants.
    SENTENCE = "false sentence"
    #: No printed statement is wrong: an inference from it is refuted, or a question of our own.
    INFERENCE = "false inference"


class Effort(StrEnum):
    """How many instances a check tries: few (tests), more (``bfio check``), or for hours."""

    QUICK = "quick"
    NORMAL = "normal"
    DEEP = "deep"


@dataclass(frozen=True)
class Context:
    """The argument of a check: its effort, its random generator and the claim's verifier.

    Parameters
    ----------
    effort : Effort
        How many instances to try.
    rng : numpy.random.Generator
        The check's only source of randomness.
    verify : callable, optional
        The claim's verifier of counterexamples.
    """

    effort: Effort
    rng: "np.random.Generator"
    verify: Verifier | None = None

    def choose(self, quick: T, normal: T, deep: T) -> T:
        """Return the one of three values that belongs to the current effort."""
        return {Effort.QUICK: quick, Effort.NORMAL: normal, Effort.DEEP: deep}[self.effort]

    def domain(self, made: str, instances: Iterable[T]) -> Domain[T]:
        """Return a domain of instances whose counterexamples the claim's verifier confirms."""
        return Domain(made, instances, self.verify)

    def refute(
        self,
        what: str,
        made: str,
        instances: Iterable[T],
        as_data: Callable[..., Data] | None = None,
        **options: Any,
    ) -> Examination[T]:
        """Try the printed statement on instances; see `proofs_checks.search.refute`."""
        return self.domain(made, instances).refute(what, as_data, **options)


#: A function that collects evidence. Mutations change its keywords after the context.
Check: TypeAlias = Callable[..., Outcome]
C = TypeVar("C", bound=Callable[..., Any])


class Mutation:
    """A deliberately broken variant of a check, whose verdicts must differ from the claim's.

    Parameters
    ----------
    name : str
        What is broken: a policy, a dropped hypothesis, a changed constant.
    **changes
        Keyword arguments that make the check run with that part broken.
    """

    def __init__(self, name: str, /, **changes: Any) -> None:
        self.name, self.changes = name, changes


#: Claim fields by the label that introduces them in the docstring of a check.
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
    """Return the texts of a claim, by field, from the docstring of its check.

    The first line is the title. Each other text follows after its label and a colon (`_LABELS`);
    further lines of the text are indented. Semicolons separate the hypotheses.

    Raises
    ------
    InputError
        If a line after the first label is neither indented nor starts with a label.
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
    """Return the lines of a text, joined by spaces."""
    return re.sub(r"\n *", " ", text.strip())


@dataclass(frozen=True)
class Claim:
    """One statement of a paper, or one of our own, that ``bfio check`` can check.

    Its texts (title, source, statement, formula, hypotheses, summary, correction, reading) are
    given as keywords or in the docstring of its check; see `texts_of`.

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
        The statement as a formula.
    hypotheses : tuple of str
        Assumptions of the statement; the check's instances meet them.
    check : callable
        Function of a `Context` that collects the evidence and returns an `Outcome`.
    kind : Kind, optional
        Kind of evidence; by default a counterexample if it has a verifier, else an exact finite
        check.
    scope : Scope
        Part of the source.
    summary : str
        One to three sentences for the claim's page: what the check finds, and why.
    mutations : tuple of Mutation
        Broken variants of the check; at least one, unless the claim is not checkable.
    correction : str, optional
        The corrected statement and why it holds, if the printed statement fails.
    defect : Defect, optional
        What is wrong with the printed statement, needed if it is refuted.
    reading : str, optional
        Interpretation chosen where the source is ambiguous.
    verify : callable, optional
        Verifier of counterexamples, needed if the claim is refuted as printed.
    proof : str, optional
        Name of the proof of the printed or corrected statement: ``proofs/NAME.md``.
    named_as : str
        ``module:NAME`` or ``FILE.py:NAME`` of a claim from outside this package, set by the
        registry; its record is stored next to that file.

    Raises
    ------
    InputError
        If the id is malformed, a text is missing, there is no mutation, a mutation changes an
        unknown keyword of the check, or the defect "false result" is given for a statement that is
        not a numbered result.
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
        """Take missing texts from the docstring of the check, and validate all fields."""
        for name, text in texts_of(self.check).items():
            if not getattr(self, name):
                object.__setattr__(self, name, text)
        if not _ID.fullmatch(self.id):
            raise InputError(f"claim {self.id!r}", "not a valid id", "write e.g. balance.lemma1")
        for name in ("source", "title", "statement", "formula"):
            if not getattr(self, name).strip():
                raise InputError(f"claim {self.id}", f"no {name}", "write one")
        if not self.mutations and self.kind is not Kind.OUTSIDE:
            raise InputError(f"claim {self.id}", "no mutation", "add one that its check catches")
        if self.defect is Defect.RESULT and self.scope not in (Scope.RESULT, Scope.OURS):
            what = f"has the defect false result, but its scope is {self.scope}"
            raise InputError(f"claim {self.id}", what, "write Defect.SENTENCE")
        known = signature(self.check).parameters
        for mutation in self.mutations:
            if unknown := mutation.changes.keys() - known:
                what = f"mutation {mutation.name!r} changes {', '.join(sorted(unknown))}"
                raise InputError(f"claim {self.id}", what, "name keywords of the check")

    @property
    def decided_by(self) -> Kind:
        """The kind of evidence that decides the claim: ``kind``, or its default."""
        return self.kind or (Kind.FINITE if self.verify is None else Kind.COUNTEREXAMPLE)

    @property
    def command(self) -> str:
        """The shell command that checks the claim."""
        return f"bfio check {self.named_as or self.id}"


class Claims(list[Claim]):
    """The list of a module's claims, filled by decorators of the checks.

    There is one decorator per scope. A decorator takes the claim's id, its mutations, and other
    fields of `Claim` by keyword. If ``check`` is given, the decorated function only provides the
    docstring::

        CLAIMS = Claims()

        @CLAIMS.step("own.sum", Mutation("one less", less=1))
        def _sum_check(context: Context, *, less: int = 0) -> Outcome:
            ...
    """

    def stated(
        self, scope: Scope, claim_id: str, *mutations: Mutation, **parts: Any
    ) -> Callable[[C], C]:
        """Decorate a check: add its claim, of the given scope, to the list."""

        def add(told: C) -> C:
            whole = {"check": told, **texts_of(told), **parts}
            self.append(Claim(claim_id, scope=scope, mutations=mutations, **whole))
            return told

        return add

    def result(self, claim_id: str, *mutations: Mutation, **parts: Any) -> Callable[[C], C]:
        """Decorate the check of a numbered result, or of a numbered part of a result."""
        return self.stated(Scope.RESULT, claim_id, *mutations, **parts)

    def formula(self, claim_id: str, *mutations: Mutation, **parts: Any) -> Callable[[C], C]:
        """Decorate the check of a formula, a definition or an algorithm."""
        return self.stated(Scope.FORMULA, claim_id, *mutations, **parts)

    def step(self, claim_id: str, *mutations: Mutation, **parts: Any) -> Callable[[C], C]:
        """Decorate the check of a step of a proof."""
        return self.stated(Scope.STEP, claim_id, *mutations, **parts)

    def remark(self, claim_id: str, *mutations: Mutation, **parts: Any) -> Callable[[C], C]:
        """Decorate the check of a sentence of the text, an illustration or a footnote."""
        return self.stated(Scope.REMARK, claim_id, *mutations, **parts)

    def experiment(self, claim_id: str, *mutations: Mutation, **parts: Any) -> Callable[[C], C]:
        """Decorate the check of measured or simulated figures, or of sentences on them."""
        return self.stated(Scope.EXPERIMENT, claim_id, *mutations, **parts)

    def own(self, claim_id: str, *mutations: Mutation, **parts: Any) -> Callable[[C], C]:
        """Decorate the check of a claim that no paper states (our own)."""
        return self.stated(Scope.OURS, claim_id, *mutations, **parts)

    def outside(self, claim_id: str, scope: Scope = Scope.EXPERIMENT) -> Callable[[C], C]:
        """Decorate a function with the texts of a claim that no computation here can decide."""

        def check(context: Context) -> Outcome:
            return Evidence(Verdict.NOT_CHECKABLE)

        return self.stated(scope, claim_id, kind=Kind.OUTSIDE, check=check)
