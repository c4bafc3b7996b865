"""What the paper states and no finite computation here can decide, with the reason."""

from proofs_checks.claim import Claim, Scope
from proofs_checks.outside import outside_claim


def _claim(name: str, source: str, *texts: str, scope: Scope = Scope.EXPERIMENT) -> Claim:
    return outside_claim(f"batching.{name}", f"throughput paper, {source}", *texts, scope=scope)


CLAIMS = (
    _claim(
        "lemma1",
        "Lemma 1 (appendix C.3)",
        "Convergent sequences of scaled processes",
        "For almost every sample path and each unbounded set of states there is a sequence of "
        "states along which the scaled B_f converge uniformly on compact sets.",
        "sup_{t ≤ T} |B_f^{x_k}(t) − B_f(t)| → 0",
        "It is the theorem of Arzelà and Ascoli for functions with one Lipschitz constant, in the "
        "limit; what it needs of the engine is (C.8), which holds with b more (batching.c8).",
        scope=Scope.RESULT,
    ),
    _claim(
        "lemma3",
        "Lemma 3 (appendix C.3)",
        "Fluid limits are fluid solutions",
        "Each fluid limit of a work-conserving (K_p, K_d)-FCFS algorithm satisfies (C.10) to "
        "(C.17).",
        "(B, F, W, Z) a fluid limit  ⇒  (C.10)–(C.17)",
        "It speaks of limits along all sequences of states. Its first part rests on (C.9) and "
        "(C.29), for which see batching.c9 and batching.lemma2.",
        scope=Scope.RESULT,
    ),
    _claim(
        "proposition3",
        "Proposition 3 (appendix C.4)",
        "Stable fluid limits make a stable chain",
        "If the fluid limits are stable, the chain is positive recurrent.",
        "(C.30)  ⇒  {X_n} positive recurrent",
        "It is a theorem on all chains of the model, proven by reference. For Theorem 1 (a) "
        "Foster's criterion is checked directly (batching.theorem1a).",
        scope=Scope.RESULT,
    ),
    _claim(
        "figure1",
        "Figure 1 (section 1)",
        "Queues of three serving systems",
        "With CodeLlama-34B on A100, 129 prompt and 112 decode tokens on average and 14.3 queries "
        "per second, queues of FasterTransformer and vLLM grow and those of Sarathi-Serve do not.",
        "14.3 · 241 = 3446 tokens/s",
        "Constants of the model, token budget, arrivals and number of devices are not given.",
    ),
    _claim(
        "figures3-4",
        "Figures 3 and 4 (section 2.1)",
        "Batch times are piecewise linear",
        "Times of full batches hardly vary; a piecewise linear function of the token load fits "
        "with R² > 0.985 in all cases.",
        "t = c + a·max(0, b' − b0)",
        "The measurements are not published.",
    ),
    _claim(
        "figure9",
        "Figure 9 (section 5)",
        "Latency by token budget",
        "With CodeLlama-34B and Sarathi-Serve a budget of 512 has the lower median latency, 1024 "
        "the better time to first token, and 128 is too small.",
        "b ∈ {128, 512, 1024}",
        "The conversation traces are not named, and no numbers are printed. With published "
        "constants and a public trace (study 39) 1024 has the better time to first token at every "
        "rate; the lower median of 512 is small and ends with its capacity; 128 is too small by "
        "capacity alone.",
    ),
)
