"""What the paper states and no finite computation here can decide, with the reason."""

from proofs_checks.claim import Claim, Scope
from proofs_checks.outside import outside_claim


def _claim(name: str, source: str, *texts: str, scope: Scope = Scope.EXPERIMENT) -> Claim:
    return outside_claim(f"kv.{name}", f"KV-cache paper, {source}", *texts, scope=scope)


CLAIMS = (
    _claim(
        "figure5",
        "section 7 and Figure 5",
        "Latency on LMSYS-Chat-1M",
        "Average latency against the number of arrivals has slope 1/6 for Algorithm 2 and 1/2 "
        "for the best benchmark under high demand, 1/800 and 1/100 under low demand.",
        "slopes 1/6, 1/2 (λ = 50); 1/800, 1/100 (λ = 10)",
        "The sample of 10,000 conversations and the simulator of batch times are not at hand. "
        "Studies 8 to 10 of the benchmarks measure the same on other traces.",
    ),
    _claim(
        "protection-thresholds",
        "sections 7.1 and 7.2",
        "Least α without a loop",
        "On the grid of 0.01 the least α that avoids an infinite loop is 0.21 under high demand "
        "and 0.24 under low demand.",
        "α_min = 0.21 (λ = 50), 0.24 (λ = 10)",
        "The requests are not at hand. Section 7.1 itself turns to β-clearing for all α < 0.24. "
        "Study 9 of the benchmarks looks for the threshold on other traces; kv.alpha-loop shows "
        "that there is one.",
    ),
    _claim(
        "benchmark-latency",
        "later version, experiments",
        "MC-SF against MC-Benchmark",
        "On 10,000 conversations MC-SF has an average latency of 32.11, MC-Benchmark of 46.47.",
        "32.11 against 46.47",
        "Neither the requests nor that version are at hand: the figures are known from a summary, "
        "which prints the unit as ms. Study 8 of the benchmarks compares both on other traces.",
    ),
)
