"""Statements of the papers that no finite computation here can decide, with the reason."""

from proofs_checks.claim import Claims, Scope

CLAIMS = Claims()


@CLAIMS.outside("balance.figure1")
def _balance_figure1() -> None:
    """Idle time in an industrial trace.

    Source: BF-IO paper, figure 1 (section 1)
    Statement: In 436 steps on 32 GPUs workers wait 40 % of the time in the mean, 41 % in the
        median.
    Formula: mean idle fraction 40 %, median 41 %
    Summary: The trace is not public. The toolkit reports the idle fraction of each run.
    """


@CLAIMS.outside("balance.figure5")
def _balance_figure5() -> None:
    """Outputs are geometric.

    Source: BF-IO paper, figure 5 (section 5)
    Statement: Output lengths of four public traces show a geometric pattern.
    Formula: o_i ~ Geo(p)
    Summary: A picture without a test or a fitted p, on cuts of traces that are not named. The page
        on geometric outputs fits and tests the law on nine cuts of public traces and finds it on
        none.
    """


@CLAIMS.outside("balance.figure6")
def _balance_figure6() -> None:
    """Load trajectories.

    Source: BF-IO paper, figure 6 (section 6.4)
    Statement: FCFS has a gap of 40,000 to 50,000 tokens between the heaviest and the lightest of
        16 workers, JSQ more, BF-IO (H = 0) 5,000 to 10,000, BF-IO (H = 20) the least.
    Formula: D(k) ≈ 45,000 (FCFS), more (JSQ), 7,500 (H = 0), least (H = 20)
    Summary: The cut of BurstGPT, the seeds and the window are not given. Study 1 of the benchmarks
        runs the four policies on other cuts.
    """


@CLAIMS.outside("batching.lemma1", scope=Scope.RESULT)
def _batching_lemma1() -> None:
    """Convergent sequences of scaled processes.

    Source: throughput paper, Lemma 1 (appendix C.3)
    Statement: For almost every sample path and each unbounded set of states there is a sequence of
        states along which the scaled B_f converge uniformly on compact sets.
    Formula: sup_{t ≤ T} |B_f^{x_k}(t) − B_f(t)| → 0
    Summary: It is the theorem of Arzelà and Ascoli for functions with one Lipschitz constant, in
        the limit; what it needs of the engine is (C.8), which holds with b more (batching.c8).
    """


@CLAIMS.outside("batching.lemma3", scope=Scope.RESULT)
def _batching_lemma3() -> None:
    """Fluid limits are fluid solutions.

    Source: throughput paper, Lemma 3 (appendix C.3)
    Statement: Each fluid limit of a work-conserving (K_p, K_d)-FCFS algorithm satisfies (C.10) to
        (C.17).
    Formula: (B, F, W, Z) a fluid limit  ⇒  (C.10)–(C.17)
    Summary: It speaks of limits along all sequences of states. Its first part rests on (C.9) and
        (C.29), for which see batching.c9 and batching.lemma2.
    """


@CLAIMS.outside("batching.proposition3", scope=Scope.RESULT)
def _batching_proposition3() -> None:
    """Stable fluid limits make a stable chain.

    Source: throughput paper, Proposition 3 (appendix C.4)
    Statement: If the fluid limits are stable, the chain is positive recurrent.
    Formula: (C.30)  ⇒  {X_n} positive recurrent
    Summary: It is a theorem on all chains of the model, proven by reference. For Theorem 1 (a)
        Foster's criterion is checked directly (batching.theorem1a).
    """


@CLAIMS.outside("batching.figure1")
def _batching_figure1() -> None:
    """Queues of three serving systems.

    Source: throughput paper, Figure 1 (section 1)
    Statement: With CodeLlama-34B on A100, 129 prompt and 112 decode tokens on average and 14.3
        queries per second, queues of FasterTransformer and vLLM grow and those of Sarathi-Serve do
        not.
    Formula: 14.3 · 241 = 3446 tokens/s
    Summary: Constants of the model, token budget, arrivals and number of devices are not given.
    """


@CLAIMS.outside("batching.figures3-4")
def _batching_figures3_4() -> None:
    """Batch times are piecewise linear.

    Source: throughput paper, Figures 3 and 4 (section 2.1)
    Statement: Times of full batches hardly vary; a piecewise linear function of the token load
        fits with R² > 0.985 in all cases.
    Formula: t = c + a·max(0, b' − b0)
    Summary: The measurements are not published.
    """


@CLAIMS.outside("batching.figure9")
def _batching_figure9() -> None:
    """Latency by token budget.

    Source: throughput paper, Figure 9 (section 5)
    Statement: With CodeLlama-34B and Sarathi-Serve a budget of 512 has the lower median latency,
        1024 the better time to first token, and 128 is too small.
    Formula: b ∈ {128, 512, 1024}
    Summary: The conversation traces are not named, and no numbers are printed. With published
        constants and a public trace (study 39) 1024 has the better time to first token at every
        rate; the lower median of 512 is small and ends with its capacity; 128 is too small by
        capacity alone.
    """


@CLAIMS.outside("fluid.figure3")
def _fluid_figure3() -> None:
    """Batch times are linear in tokens.

    Source: fluid paper, figure 3 (section 2.2)
    Statement: Iteration times of Llama-7B and 13B on an L20 GPU are highly in accordance with (1).
    Formula: measured τ ≈ d0 + d1·X
    Summary: It is a measurement on a GPU; neither data nor coefficients are printed.
    """


@CLAIMS.outside("fluid.figures7-14")
def _fluid_figures7_14() -> None:
    """WAIT and Nested WAIT against vLLM and Sarathi.

    Source: fluid paper, figures 7, 8 and 11 to 14 (section 6)
    Statement: In all tested settings throughput is higher, and latency acceptable or lower.
    Formula: Thr(WAIT) > Thr(vLLM), Thr(Sarathi)
    Summary: The batch-size limit B, the fitted batch times, the memory and the scale of the
        thresholds are not printed, and the curves are only drawn. Studies with assumed values are
        no check of these figures.
    """


@CLAIMS.outside("kv.figure5")
def _kv_figure5() -> None:
    """Latency on LMSYS-Chat-1M.

    Source: KV-cache paper, section 7 and Figure 5
    Statement: Average latency against the number of arrivals has slope 1/6 for Algorithm 2 and 1/2
        for the best benchmark under high demand, 1/800 and 1/100 under low demand.
    Formula: slopes 1/6, 1/2 (λ = 50); 1/800, 1/100 (λ = 10)
    Summary: The sample of 10,000 conversations and the simulator of batch times are not at hand.
        Studies 8 to 10 of the benchmarks measure the same on other traces.
    """


@CLAIMS.outside("kv.protection-thresholds")
def _kv_protection_thresholds() -> None:
    """Least α without a loop.

    Source: KV-cache paper, sections 7.1 and 7.2
    Statement: On the grid of 0.01 the least α that avoids an infinite loop is 0.21 under high
        demand and 0.24 under low demand.
    Formula: α_min = 0.21 (λ = 50), 0.24 (λ = 10)
    Summary: The requests are not at hand. Section 7.1 itself turns to β-clearing for all α < 0.24.
        Study 9 of the benchmarks looks for the threshold on other traces; kv.alpha-loop shows that
        there is one.
    """


@CLAIMS.outside("kv.benchmark-latency")
def _kv_benchmark_latency() -> None:
    """MC-SF against MC-Benchmark.

    Source: KV-cache paper, later version, experiments
    Statement: On 10,000 conversations MC-SF has an average latency of 32.11, MC-Benchmark of
        46.47.
    Formula: 32.11 against 46.47
    Summary: Neither the requests nor that version are at hand: the figures are known from a
        summary, which prints the unit as ms. Study 8 of the benchmarks compares both on other
        traces.
    """


@CLAIMS.outside("route.tables")
def _route_tables() -> None:
    """Measurements on 144 accelerators.

    Source: BalanceRoute paper, Tables 1, 2 and 4 to 7, figures 3, 4 and 6 to 13
    Statement: Imbalance, TPOT P95 and throughput of nine methods on two traces, of three clusters,
        and of seven configurations.
    Formula: the entries of the tables
    Summary: The cluster, the proprietary trace and the filter of the public one are not at hand;
        each cell is one replay. What the text says of the entries is checked: route.table1-order,
        route.table1-tpot, route.scaling, route.sweep, route.appendix-e.
    """


@CLAIMS.outside("route.table3")
def _route_table3() -> None:
    """Accuracy of the predictors.

    Source: BalanceRoute paper, Table 3 (appendix C.3)
    Statement: Stage 1 has an AUC of 0.993 and 0.995 on Azure-2024, of 0.700 and 0.974 on
        proprietary data; stage 2 an error of 5.4, 5.4, 20.1 and 2.9 steps.
    Formula: AUC and MAE of survival and exact match
    Summary: One trace is proprietary, the other is filtered by a bound that the text at hand does
        not show. The toolkit's command on predictors reports the same measures on any trace.
    """


@CLAIMS.outside("route.dispatch")
def _route_dispatch() -> None:
    """Cost of a dispatch.

    Source: BalanceRoute paper, section 6.4 and appendix D.7, figure 5
    Statement: A dispatch takes milliseconds, most of it in stage 2, well below a step of the
        engine.
    Formula: time per tick against the time of a step
    Summary: Timings of the authors' proxy, and the figures are lost in the text at hand. What
        stage 2 has to do is route.subset-cost.
    """
