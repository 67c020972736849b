"""Estimators of scikit-learn: `dl.learn.NTKRegressor(dl.ResNet("relu"), depth=64).fit(X, y)`."""

__all__: list[str] = []
