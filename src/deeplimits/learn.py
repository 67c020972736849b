"""Estimators of scikit-learn: `dl.learn.NTKRegressor(dl.ResNet("relu"), depth=64).fit(X, y)`."""

from deeplimits.inference.classifier import NNGPClassifier, NTKClassifier
from deeplimits.inference.regressor import NNGPRegressor, NTKRegressor

__all__ = ["NNGPClassifier", "NNGPRegressor", "NTKClassifier", "NTKRegressor"]
