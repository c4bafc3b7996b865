"""Output lengths foretold during a run: predictors, what they learn, when they are asked.

What a predictor has to do is in `bfio.decode.predictor`; `bfio.prediction` measures how good one
is.
"""
