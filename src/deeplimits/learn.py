"""Estimators of scikit-learn: `dl.learn.NTKRegressor(dl.ResNet("relu"), depth=64).fit(X, y)`."""

from deeplimits.inference.classifier import NNGPClassifier, NTKClassifier
from deeplimits.inference.deep_kernel import DeepKernelMachineClassifier, DeepKernelMachineRegressor
from deeplimits.inference.gradient_flow import GradientFlowRegressor
from deeplimits.inference.infinite_depth import InfiniteDepthClassifier
from deeplimits.inference.kernel_object import NetworkKernel
from deeplimits.inference.ntk_svc import NTKSVC
from deeplimits.inference.ntk_svr import NTKSVR
from deeplimits.inference.regressor import NNGPRegressor, NTKRegressor
from deeplimits.inference.signature import NeuralSignatureClassifier, NeuralSignatureRegressor
from deeplimits.limits.depth.optimal import optimal_activation

__all__ = [
    "NTKSVC",
    "NTKSVR",
    "DeepKernelMachineClassifier",
    "DeepKernelMachineRegressor",
    "GradientFlowRegressor",
    "InfiniteDepthClassifier",
    "NNGPClassifier",
    "NNGPRegressor",
    "NTKClassifier",
    "NTKRegressor",
    "NetworkKernel",
    "NeuralSignatureClassifier",
    "NeuralSignatureRegressor",
    "optimal_activation",
]
