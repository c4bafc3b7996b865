r"""Plan the admissions of a whole look-ahead window; only those of the current step are executed.

At a step, some slots are free, and further slots become free within the window if ends are known
or predicted. The plan assigns a waiting request to each of these slots. The plan minimises

    sum_h w_h (G·M_h - λ·sum_g L_g(h)),
    M_h = max_g L_g(h),   L_g(h) = b_g(h) + sum of v_i(h - t) over the slots (g, t) with t <= h

over look-ahead steps h, where (g, t) is a slot of worker g that becomes free at step t, and i is
the request that takes it. With λ = 1 this is the imbalance of the window; λ = 1/2 is used, see
`bfio.decode.rolling.reference`. If slots remain when every waiting request is planned, they are
assumed to take requests of mean size.

The window program (IO) of BF-IO leaves these future slots empty, so its projected loads fall where
requests end. Therefore it overfills workers whose slots later requests will take, and cannot
reserve the slot of a large ending request for a large waiting request. The plan can.

*Weights.* ``w_h = K·G - (slots that become free at 1..h)`` while this is positive: the state left
by this step matters until workers have been given K new requests each, which can correct it. The
window is long if slots turn over slowly, and consists of the current step only if each worker gets
several new requests per step. If there are many steps, they are sampled, ever more sparsely.

*Search.* Threshold accepting (Dueck and Scheuer 1990): exchanges of two requests are drawn, and
executed unless they raise the objective by more than a threshold, which falls to 0. This resembles
simulated annealing without logarithms. All numbers are integers, so decisions are equal on every
machine.

`kernel` implements this; `reference` is the same in plain Python, with equal decisions.
"""
