"""Prediction of output lengths during a run: predictors, their past data, and their refresh.

`bfio.decode.predictor` defines the interface of a predictor; `bfio.prediction` evaluates
predictors.
"""
