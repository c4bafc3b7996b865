r"""A plan of the admissions of a whole window, of which only those of this step are carried out.

At a step, slots are free now and, where ends are known or predicted, further ones become free
within the window. The plan gives each of these slots one of the waiting requests. It minimises

    sum_h w_h (G·M_h - λ·sum_g L_g(h)),
    M_h = max_g L_g(h),   L_g(h) = b_g(h) + sum of v_i(h - t) over the slots (g, t) with t <= h

over look-ahead steps h, where (g, t) is a slot of worker g that becomes free at step t and i the
request that takes it. With λ = 1 that is the imbalance of the window; λ = 1/2 is used, see
`bfio.decode.rolling.reference`. Slots that remain once every waiting request is planned are taken
to be filled with requests of mean size.

The window of BF-IO (IO) leaves such slots empty for good. Its loads fall where requests end,
so it fills workers up whose slots others will fill, and it cannot put a large request off to the
slot that a large one is about to leave. A plan can.

*Weights.* ``w_h = K·G - (slots that become free at 1..h)`` as long as that is positive: what this
step leaves behind matters until workers have been given K new requests each, which can make it
good. So the window is as long as slots turn over slowly, and ends at this step where each worker
gets several new requests in every step. Steps are sampled, ever more sparsely, as they are many.

*Search.* Threshold accepting (Dueck and Scheuer 1990): exchanges of two requests are drawn, and
made unless they raise the objective by more than a threshold, which falls to 0. It is simulated
annealing without logarithms: all numbers are integers, and every machine decides alike.

`kernel` does it; `reference` states it in plain Python, and both decide alike.
"""
