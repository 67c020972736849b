"""A claim of two steps that counts how often it is measured."""

from dataclasses import dataclass, field

from deeplimits.claims.claim import Claim, Curve, Measured, Panel, Part, Step


@dataclass
class Fake:
    """Makes the claim; `stop` interrupts the step of that name."""

    verdicts: tuple[str, str] = ("confirmed", "confirmed")
    stop: str | None = None
    measured: list[str] = field(default_factory=list)

    def claim(self, key="fake-2001-claim"):
        steps = tuple(
            Step(name, lambda sizes, name=name, verdict=verdict: self._measure(name, verdict, sizes), 1.0)
            for name, verdict in zip(("first", "second"), self.verdicts, strict=True)
        )
        return Claim(key, "Two steps.", "definition", "first number", steps, 10, 2)

    def _measure(self, name, verdict, sizes):
        if name == self.stop:
            raise KeyboardInterrupt
        self.measured.append(name)
        part = Part(f"{name} number", 1.0, 1.0 + 1 / sizes, 0.1, "a test", verdict, 0.5, 1.5)
        return Measured([part], [Panel(name, "width", "x", [Curve("x", [1.0, 2.0], [1.0, 1.1], [0.1, 0.1])])])
