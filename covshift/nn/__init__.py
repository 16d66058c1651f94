"""Algorithm 2: any two networks, a predictor f and a weight model g, trained in alternation (needs PyTorch)."""

from __future__ import annotations

from covshift.exceptions import MissingExtraError

try:
    import torch as _torch
except ModuleNotFoundError as error:
    raise MissingExtraError("covshift.nn needs PyTorch; install it with: pip install 'covshift[nn]'") from error

from covshift.nn.estimator import OneStepNetClassifier, OneStepNetRegressor
from covshift.nn.loop import OneStepTrainer
from covshift.nn.networks import make_cnn, make_mlp
from covshift.nn.pretraining import Pretraining
from covshift.nn.rows import Fresh
from covshift.nn.validation import EarlyStopping

del _torch

__all__ = [
    "EarlyStopping",
    "Fresh",
    "OneStepNetClassifier",
    "OneStepNetRegressor",
    "OneStepTrainer",
    "Pretraining",
    "make_cnn",
    "make_mlp",
]
