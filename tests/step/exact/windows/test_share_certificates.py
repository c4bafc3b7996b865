"""Certificates by shares: forged ones are refused, and each check of the verifier is needed."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from bfio.step.exact import solve_exact
from formulations.errors import InputError
from formulations.step import StepProblem, share_proof
from formulations.step.certificate import Certificate, certified_bound
from formulations.step.share_bound import Mode, PricedRound, Share, Windows
from tests.step.exact.windows.cases import optimum, small_problems

Forgery = Callable[[Certificate, np.random.Generator], Certificate]


@cache
def proven(seed: int, number: int) -> list[tuple[StepProblem, Certificate]]:
    """Return small problems whose proof needs shares, with the certificates of their optima."""
    found = []
    for problem in small_problems(seed, number):
        certificate = solve_exact(problem, fallback=None).certificate
        if certificate is None or certificate.bound != optimum(problem):
            continue
        bare = replace(certificate, kind="shares", shares=(), prices=(), admit_prices=(), cases=())
        if certificate.kind.startswith("shares") and not is_taken(problem, bare):
            found.append((problem, certificate))
    return found


def is_taken(problem: StepProblem, certificate: Certificate) -> bool:
    """Whether the verifier believes a certificate."""
    try:
        certified_bound(problem, certificate)
    except InputError:
        return False
    return True


def _share(change: Callable[[Share], Share]) -> Forgery:
    """Change a random share of a random round."""

    def forge(certificate: Certificate, rng: np.random.Generator) -> Certificate:
        at = int(rng.integers(len(certificate.shares)))
        rows = list(certificate.shares[at])
        if rows:
            k = int(rng.integers(len(rows)))
            rows[k] = change(rows[k])
        shares = list(certificate.shares)
        shares[at] = tuple(rows)
        return replace(certificate, shares=tuple(shares))

    return forge


def _price(change: Callable[[int], int]) -> Forgery:
    """Change the price of a random request in a random round."""

    def forge(certificate: Certificate, rng: np.random.Generator) -> Certificate:
        at = int(rng.integers(len(certificate.prices)))
        row = list(certificate.prices[at])
        k = int(rng.integers(len(row)))
        row[k] = change(row[k])
        prices = list(certificate.prices)
        prices[at] = tuple(row)
        return replace(certificate, prices=tuple(prices))

    return forge


def _truncated(certificate: Certificate, _: np.random.Generator) -> Certificate:
    return replace(
        certificate,
        prices=certificate.prices[:-1],
        shares=certificate.shares[:-1],
        admit_prices=certificate.admit_prices[:-1],
        cases=(),
    )


def _doubled(certificate: Certificate, _: np.random.Generator) -> Certificate:
    shares = tuple(rows + rows for rows in certificate.shares)
    return replace(certificate, shares=shares)


def _split(certificate: Certificate, rng: np.random.Generator) -> Certificate:
    """Fall into two cases of which only the first has the rounds."""
    number, level = len(certificate.prices), int(rng.integers(-5, 50))
    cases = ((0, 0, 0, level), (number, -1, 0, 0), (0, -1, 0, 0))
    return replace(certificate, cases=cases)


def _with(**fields: object) -> Forgery:
    return lambda certificate, _: replace(certificate, **fields)  # type: ignore[arg-type]


#: Each of a claim above the optimum: none may be believed.
FORGERIES: dict[str, Forgery] = {
    "claim alone": lambda certificate, _: certificate,
    "weight of a share doubled": _share(lambda s: (*s[:4], 2 * s[4] + 1)),
    "weight below 0": _share(lambda s: (*s[:4], -s[4] - 1)),
    "weight beyond 64 bits": _share(lambda s: (*s[:4], 2**64)),
    "another worker": _share(lambda s: (s[0], 1 - min(1, s[1]), *s[2:])),
    "no such worker": _share(lambda s: (s[0], 99, *s[2:])),
    "no such step": _share(lambda s: (99, *s[1:])),
    "step below 0": _share(lambda s: (-1, *s[1:])),
    "levels out of order": _share(lambda s: (*s[:2], s[3], s[2], s[4])),
    "levels from far below": _share(lambda s: (*s[:2], s[2] - 1000, *s[3:])),
    "levels to far above": _share(lambda s: (*s[:3], s[3] + 1000, s[4])),
    "levels beyond 64 bits": _share(lambda s: (*s[:2], -(2**70), 2**70, s[4])),
    "all shares twice": _doubled,
    "no shares": lambda c, _: replace(c, shares=tuple(() for _ in c.shares)),
    "price below 0": _price(lambda p: -p - 1000),
    "price higher": _price(lambda p: p + 10**6),
    "price too large": _price(lambda _: 2**59),
    "price beyond 64 bits": _price(lambda _: -(2**65)),
    "no prices": lambda c, _: replace(c, prices=tuple((0,) * len(row) for row in c.prices)),
    "last round missing": _truncated,
    "rounds in reverse": lambda c, _: replace(c, prices=c.prices[::-1], shares=c.shares[::-1]),
    "one price too few": lambda c, _: replace(c, prices=(c.prices[0][:-1], *c.prices[1:])),
    "one vector too few": lambda c, _: replace(c, prices=c.prices[:-1]),
    "one admit price too few": lambda c, _: replace(c, admit_prices=c.admit_prices[:-1]),
    "admit price higher": lambda c, _: replace(
        c, admit_prices=tuple(p + 1000 * c.price_scale for p in c.admit_prices)
    ),
    "admit price negated": lambda c, _: replace(c, admit_prices=tuple(-p for p in c.admit_prices)),
    "admit price too large": lambda c, _: replace(c, admit_prices=(2**60,) * len(c.admit_prices)),
    "scale 0": _with(price_scale=0),
    "scale below 0": _with(price_scale=-1),
    "scale halved": lambda c, _: replace(c, price_scale=max(1, c.price_scale // 2)),
    "scale 1": _with(price_scale=1),
    "scale too large": _with(price_scale=2**62),
    "searched too": _with(kind="shares-search"),
    "not searched": _with(kind="shares"),
    "another kind": _with(kind="sums"),
    "enumeration": _with(kind="enumeration"),
    "no kind": _with(kind="trust me"),
    "half a split": _split,
    "a case without its other": _with(cases=((0, 0, 0, 5), (0, -1, 0, 0))),
    "a case too many": lambda c, _: replace(c, cases=((len(c.prices), -1, 0, 0), (0, -1, 0, 0))),
    "no such worker of a case": _with(cases=((0, 99, 0, 5), (0, -1, 0, 0), (0, -1, 0, 0))),
    "no such step of a case": _with(cases=((0, 0, 99, 5), (0, -1, 0, 0), (0, -1, 0, 0))),
    "fewer rounds than 0": _with(cases=((-1, -1, 0, 0),)),
    "rounds of no case": _with(cases=((0, -1, 0, 0),)),
}


def forged(
    problems: list[tuple[StepProblem, Certificate]],
) -> Iterator[tuple[str, StepProblem, Certificate]]:
    """Yield every forgery of every certificate, for claims that are not true."""
    rng = np.random.default_rng(5)
    for problem, certificate in problems:
        for name, forge in FORGERIES.items():
            claim = certificate.bound + int(rng.choice([1, 2, 1000]))
            yield name, problem, forge(replace(certificate, bound=claim), rng)


def test_forged_certificates_are_refused() -> None:
    """Of more than 200 claims above the optimum none is believed, all are refused."""
    problems = proven(11, 60)
    refused = 0
    for name, problem, certificate in forged(problems):
        assert not is_taken(problem, certificate), name
        refused += 1
    assert refused > 200


MALFORMED = (
    "weight below 0",
    "weight beyond 64 bits",
    "no such worker",
    "no such step",
    "step below 0",
    "levels beyond 64 bits",
    "price too large",
    "price beyond 64 bits",
    "one price too few",
    "one vector too few",
    "one admit price too few",
    "admit price too large",
    "scale 0",
    "scale below 0",
    "scale too large",
    "no kind",
    "a case without its other",
    "a case too many",
    "no such worker of a case",
    "no such step of a case",
    "fewer rounds than 0",
    "rounds of no case",
)


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_certificates_are_refused_though_true(name: str) -> None:
    """What is no certificate proves nothing, not even what is true."""
    for problem, certificate in proven(11, 60):
        assert is_taken(problem, certificate)
        if certificate.shares[0] and len(certificate.prices) == 1:
            assert not is_taken(problem, FORGERIES[name](certificate, np.random.default_rng(1)))
            return
    raise AssertionError("no problem of one round")


def test_weaker_claims_are_proven_too() -> None:
    """A certificate of the optimum proves any smaller bound."""
    for problem, certificate in proven(11, 60):
        for less in (1, 2, 1000):
            assert is_taken(problem, replace(certificate, bound=certificate.bound - less))


@pytest.mark.deep
def test_thousands_of_forged_certificates_are_refused() -> None:
    """The same on problems by the thousand."""
    for name, problem, certificate in forged(proven(14, 3000)):
        assert not is_taken(problem, certificate), name


def test_cases_prove_what_each_of_them_proves() -> None:
    """Two cases with the rounds of the whole prove its bound, split anywhere, and no more."""
    rng = np.random.default_rng(3)
    for problem, certificate in proven(11, 60):
        number = len(certificate.prices)
        if len(certificate.cases) > 1:
            continue
        worker = int(rng.choice(np.flatnonzero(problem.capacity)))
        step = int(rng.integers(problem.num_steps))
        for level in {*problem.base[:, step].tolist(), -1, 10**9}:
            both = replace(
                certificate,
                prices=2 * certificate.prices,
                shares=2 * certificate.shares,
                admit_prices=2 * certificate.admit_prices,
                cases=((0, worker, step, level), (number, -1, 0, 0), (number, -1, 0, 0)),
            )
            assert is_taken(problem, both)
            assert not is_taken(problem, replace(both, bound=both.bound + 1))


def test_a_deep_tree_is_read_to_its_end() -> None:
    """Twenty thousand cases, each part of the one before, need no stack."""
    problem, certificate = proven(11, 60)[0]
    split, leaf = (0, 0, 0, 0), (0, -1, 0, 0)
    cases = (split,) * 20_000 + (leaf,) * 20_001
    deep = replace(certificate, prices=(), shares=(), admit_prices=(), cases=cases)
    assert not is_taken(problem, deep)


# -- Mutations of the verifier: without any one of its checks some forgery is believed.


def _believes_any(problems: list[tuple[StepProblem, Certificate]]) -> bool:
    for _, problem, certificate in forged(problems):
        try:
            if is_taken(problem, certificate):
                return True
        except (ArithmeticError, LookupError, ValueError, StopIteration):
            continue
    return False


def _no_shares_above_the_whole(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(share_proof, "_check_shares", lambda *_: None)


def _no_check_of_rounds(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(share_proof, "_check_round", lambda *_: None)


def _no_check_of_cases(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(share_proof, "_check_cases", lambda *_: None)
    patch.setattr(share_proof._Proof, "closes", _closes_first_case)  # noqa: SLF001


def _closes_first_case(proof: share_proof._Proof, modes: list[Mode]) -> bool:
    """Look at the first of two cases only."""
    number, worker, step, level = next(proof.cases)
    rounds = [next(proof.rounds) for _ in range(number)]
    closed, left = proof._bounded(modes, rounds, search=proof.search and worker < 0)  # noqa: SLF001
    if closed or worker < 0:
        return closed
    return _closes_first_case(proof, share_proof._part(left, worker, step, level, high=False))  # noqa: SLF001


def _keeps_one_budget_less(patch: pytest.MonkeyPatch) -> None:
    """Boxes lose what is exactly as far from the bound as the claim allows."""
    shrink = share_proof._shrink  # noqa: SLF001

    def eager(
        made: PricedRound, modes: list[Mode], workers: set[int]
    ) -> tuple[dict[int, int], int]:
        return shrink(replace(made, claim=made.claim - 1), modes, workers)

    patch.setattr(share_proof, "_shrink", eager)


def _forgets_prices(patch: pytest.MonkeyPatch) -> None:
    """Leave out what prices give back."""
    patch.setattr(PricedRound, "constant", lambda made: made.scale * made.paid(made.floors))


def _forgets_the_admitted(patch: pytest.MonkeyPatch) -> None:
    """Leave out what the price on the number of requests gives back."""

    def constant(made: PricedRound) -> int:
        return made.scale * made.paid(made.floors) - sum(made.shares.prices)

    patch.setattr(PricedRound, "constant", constant)


def _floors_too_high(patch: pytest.MonkeyPatch) -> None:
    floors = Windows.floors
    patch.setattr(Windows, "floors", lambda windows, modes: floors(windows, modes) + 1)


def _narrows_too_far(patch: pytest.MonkeyPatch) -> None:
    narrowed = Windows.narrowed
    patch.setattr(Windows, "narrowed", lambda w, modes, claim: narrowed(w, modes, claim // 2))


def _searches_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(share_proof, "beats", lambda *_: False)


def _forgets_who_is_used(patch: pytest.MonkeyPatch) -> None:
    """Look at one set of each mode only."""
    near = share_proof._near_best  # noqa: SLF001
    patch.setattr(share_proof, "_near_best", lambda *given: list(near(*given))[:1])


MUTATIONS = (
    _no_shares_above_the_whole,
    _no_check_of_rounds,
    _no_check_of_cases,
    _keeps_one_budget_less,
    _forgets_prices,
    _forgets_the_admitted,
    _floors_too_high,
    _narrows_too_far,
    _searches_nothing,
    _forgets_who_is_used,
)


@pytest.mark.parametrize("mutate", MUTATIONS, ids=lambda mutate: mutate.__name__.strip("_"))
def test_a_mutation_of_the_verifier_is_caught(
    mutate: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A verifier that leaves something out believes a forgery."""
    problems = proven(11, 60)
    mutate(monkeypatch)
    assert _believes_any(problems)
