"""Small models on bundled data, each with `build(width, depth)`, `train(model, groups, seed)` and `batch(seed)`.

`deeplimits transfer check mlp` finds them by name; a file of one's own has the same three functions.
"""

EXAMPLES = {
    "mlp": "pre-norm residual perceptron on scikit-learn's digits",
    "resnet": "pre-activation convolutional ResNet on scikit-learn's digits",
    "vit": "vision transformer on scikit-learn's digits",
    "gpt": "causal transformer on the characters of Python's help topics",
}
