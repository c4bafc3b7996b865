"""Figures of runs that are not public, with what the toolkit has in their place."""

from proofs_checks.claim import Claim, Scope
from proofs_checks.outside import outside_claim


def _claim(name: str, source: str, *texts: str) -> Claim:
    paper = f"BF-IO paper, {source}"
    return outside_claim(f"balance.{name}", paper, *texts, scope=Scope.EXPERIMENT)


CLAIMS = (
    _claim(
        "figure1",
        "figure 1 (section 1)",
        "Idle time in an industrial trace",
        "In 436 steps on 32 GPUs workers wait 40 % of the time in the mean, 41 % in the median.",
        "mean idle fraction 40 %, median 41 %",
        "The trace is not public. The toolkit reports the idle fraction of each run.",
    ),
    _claim(
        "figure5",
        "figure 5 (section 5)",
        "Outputs are geometric",
        "Output lengths of four public traces show a geometric pattern.",
        "o_i ~ Geo(p)",
        "A picture without a test or a fitted p, on cuts of traces that are not named. The page "
        "on geometric outputs fits and tests the law on nine cuts of public traces and finds it "
        "on none.",
    ),
    _claim(
        "figure6",
        "figure 6 (section 6.4)",
        "Load trajectories",
        "FCFS has a gap of 40,000 to 50,000 tokens between the heaviest and the lightest of 16 "
        "workers, JSQ more, BF-IO (H = 0) 5,000 to 10,000, BF-IO (H = 20) the least.",
        "D(k) ≈ 45,000 (FCFS), more (JSQ), 7,500 (H = 0), least (H = 20)",
        "The cut of BurstGPT, the seeds and the window are not given. Study 1 of the benchmarks "
        "runs the four policies on other cuts.",
    ),
)
