"""Sections 7 and 8: size of the cache, slopes."""

from fractions import Fraction

from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Data, Outcome
from proofs_checks.search import examine, refute

CLAIMS = Claims()


# The size of the cache.
_LAYERS, _HIDDEN, _BYTES = 80, 8192, 2
_PARAMETERS = 70 * 10**9
#: Tokens of the published experiments.
_PUBLISHED = 16_492


def bytes_per_token(layers: int) -> int:
    """Return the bytes of keys and values per token, ``2·L·H·D``."""
    return 2 * layers * _HIDDEN * _BYTES


def tokens_limit(data: Data) -> int:
    """Return the tokens that fit, for the printed sizes in units of ``gigabyte`` bytes."""
    model = _PARAMETERS * _BYTES if data["model_in_bytes"] else 140 * data["gigabyte"]
    tokens: int = (160 * data["gigabyte"] - model) // bytes_per_token(_LAYERS)
    return tokens


def verify_limit(data: Data) -> str | None:
    """Evaluate the printed formula and compare it with 16,492 tokens."""
    if data["gigabyte"] not in (10**9, 2**30) or data["model_in_bytes"] not in (0, 1):
        return None
    tokens = tokens_limit(data)
    if tokens == _PUBLISHED:
        return None
    return f"with a GB of {data['gigabyte']} bytes: {tokens} tokens, not {_PUBLISHED}"


@CLAIMS.remark(
    "kv.memory-limit",
    Mutation("64 layers in the correction", layers=64),
    defect=Defect.FORMULA,
    verify=verify_limit,
)
def _limit_check(context: Context, *, layers: int = _LAYERS) -> Outcome:
    """16,492 tokens.

    Source: KV-cache paper, section 7 (simulation setup)
    Statement: For Llama2-70B on two A100 the limit is (160 GB − 140 GB) over 2·L·H·D = 2,621,440
        bytes per token, 16,492 tokens.
    Formula: (160 GB − 70·10⁹·2 B)/(2·80·8192·2 B) = 16,492
    Assumes: P = 70 billion, L = 80, H = 8192, D = 2
    Summary: No reading of GB gives 16,492; a token of half the size does not either (15,258).
    Correction: The size per token is right; the quotient is 7,629 tokens (8,192 with GB of 2^30
        bytes throughout, 12,130 with the model in bytes).
    """
    del context
    cases = [{"gigabyte": g, "model_in_bytes": m} for g in (10**9, 2**30) for m in (0, 1)]
    printed = refute(
        "(160 GB − 140 GB)/(2·L·H·D) = 16,492", "GB of 10^9 and of 2^30 bytes", cases, verify_limit
    )
    corrected = examine(
        "2·L·H·D = 2,621,440 bytes and 20·10^9 of them hold 7,629 tokens",
        "L = 80, H = 8192, D = 2",
        [bytes_per_token(layers)],
        lambda b: b == 2_621_440 and 20 * 10**9 // b == 7629,
    )
    return printed, corrected


# Latency and slopes.
#: Seconds of the cap, and the slopes of Algorithm 2 and of the best benchmark (section 7.1).
_CAP, _SLOPES = 200, (Fraction(1, 6), Fraction(1, 2))


def grown(slope: Fraction, arrivals: int, per_unit: int) -> Fraction:
    """Return the latency that a line through the origin reaches [s].

    Parameters
    ----------
    slope : Fraction
        Seconds per unit of the horizontal axis.
    arrivals : int
        Where to read it.
    per_unit : int
        Arrivals per unit: 1 if the axis counts arrivals, λ if it is time in seconds.
    """
    return slope * arrivals / per_unit


def verify_cap(data: Data) -> str | None:
    """Compare both lines with the cap, in both units that the axis can have."""
    arrivals, rate = data["arrivals"], data["rate"]
    if arrivals != 10_000 or rate != 50:
        return None
    read = [[grown(slope, arrivals, unit) for slope in _SLOPES] for unit in (1, rate)]
    if any(mine <= _CAP < benchmark for mine, benchmark in read):
        return None
    (mine, _), (later, benchmark) = read
    return (
        f"{arrivals} arrivals: at 1/6 s per arrival Algorithm 2 is at {float(mine):.0f} s, above "
        f"{_CAP} s; at 1/6 and 1/2 s per second of arrivals (λ = {rate}) the two are at "
        f"{float(later):.0f} and {float(benchmark):.0f} s, both below"
    )


@CLAIMS.experiment(
    "kv.section8.2",
    Mutation("1/3 for 1/2 in the correction", high=3),
    defect=Defect.FORMULA,
    verify=verify_cap,
)
def _slopes_check(context: Context, *, high: int = 2, low: int = 100) -> Outcome:
    """Slopes and the latency cap.

    Source: KV-cache paper, sections 7.1, 7.2 and 8.2
    Statement: Under high demand average latency grows linearly in the arrivals, with slope 1/6 for
        Algorithm 2 and 1/2 for the best benchmark; up to 10,000 arrivals Algorithm 2 stays below
        200 s, which the benchmarks exceed. The slopes are in ratio 3, and 8 under low demand.
    Formula: σ·10,000 ≤ 200 s < 3σ·10,000 for σ = 1/6;  (1/2)/(1/6) = 3;  (1/100)/(1/800) = 8
    Assumes: lines through the origin; λ = 50 arrivals a second
    Summary: The unit of the slopes is not given. What section 8.2 says needs a slope of Algorithm
        2 between 1/150 and 1/50 s per arrival.
    Reading: the paper names no unit; seconds per arrival (the axis of Figure 5) and seconds per
        second of arrivals are tried, and both contradict section 8.2.
    Correction: The ratios 3 and 8 are right; the slopes or their unit are not those of the figure
        that section 8.2 reads.
    """
    del context
    printed = refute(
        "Algorithm 2 below and the best benchmark above 200 s at 10,000 arrivals",
        "slopes per arrival, and per second of arrivals",
        [{"arrivals": 10_000, "rate": 50}],
        verify_cap,
    )
    corrected = examine(
        "the slopes are in ratio 3 (1/2 to 1/6) and 8 (1/100 to 1/800)",
        "section 8.2",
        [((high, 6), 3), ((low, 800), 8)],
        lambda c: Fraction(c[0][1], c[0][0]) == c[1],
    )
    return printed, corrected
