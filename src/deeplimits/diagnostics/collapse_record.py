"""What measuring neural collapse found, as plain numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, repr=False)
class NeuralCollapse:
    """How far features are collapsed: 0 in every measure is full collapse.

    Attributes:
        classes: labels in order.
        counts: features of each class.
        variability: NC1, tr(S_W S_B^+)/C.
        trace_ratio: tr S_W / tr S_B.
        norm_spread: NC2, standard deviation over mean of the distances of class means from their centre.
        cosine_spread: NC2, standard deviation of the cosines between class means.
        simplex: NC2, mean distance of those cosines from -1/(C-1).
        duality: NC3, distance of the weights from the class means, both of norm 1; None without weights.
        disagreement: NC4, share of features whose largest output is not their nearest class mean; None without weights.
        rank: directions between class means that the pseudo-inverse kept; C-1 is all there can be.
        distances: (C,) of class means from their centre.
        deviations: (C,) root mean square distances of features from their class mean.
        cosines: of the pairs (0, 1), (0, 2), ..., (C-2, C-1) of class means about their centre.
    """

    classes: tuple[int, ...]
    counts: tuple[int, ...]
    variability: float
    trace_ratio: float
    norm_spread: float
    cosine_spread: float
    simplex: float
    duality: float | None
    disagreement: float | None
    rank: int
    distances: tuple[float, ...]
    deviations: tuple[float, ...]
    cosines: tuple[float, ...]

    def __repr__(self) -> str:
        rest = "" if self.duality is None else f", NC3 {self.duality:.3g}, NC4 {self.disagreement:.3g}"
        spreads = f"NC2 {self.norm_spread:.3g} {self.cosine_spread:.3g} {self.simplex:.3g}"
        return f"<NeuralCollapse: {len(self.classes)} classes, NC1 {self.variability:.3g}, {spreads}{rest}>"
