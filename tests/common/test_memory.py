"""Sizes that are refused before memory is allocated."""

import pytest

from bfio.common.memory import VARIABLE, allowed_bytes, free_bytes, limited_memory, require_memory
from formulations.errors import InputError


def test_sizes_are_refused_with_estimate_and_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two gibibytes where one is allowed; the error names all three."""
    monkeypatch.setenv(VARIABLE, "1")
    require_memory(2**30, "horizon", "requests", "shorten it")
    with pytest.raises(
        InputError, match=r"horizon: 9 requests take about 2.0 GiB; the limit is 1.0"
    ):
        require_memory(2**31, "horizon", "9 requests", "shorten it")


@pytest.mark.parametrize("said", ["0", "-1", "nan", "much", "inf"])
def test_what_is_allowed_is_a_number(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    """Gibibytes above 0."""
    monkeypatch.setenv(VARIABLE, said)
    with pytest.raises(InputError, match=VARIABLE):
        allowed_bytes()


def test_half_of_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the variable."""
    monkeypatch.delenv(VARIABLE, raising=False)
    assert 0.3 * free_bytes() < allowed_bytes() < 0.7 * free_bytes()


def test_allocations_beyond_a_limit_fail() -> None:
    """Within the block alone."""
    with limited_memory(2**26), pytest.raises(MemoryError):
        bytearray(2**27)
    assert len(bytearray(2**27)) == 2**27
