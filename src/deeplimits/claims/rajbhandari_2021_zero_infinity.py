"""ZeRO partitions parameters, gradients and optimizer states, and takes a plan's parameter groups as they are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deeplimits.claims import agreement
from deeplimits.claims.claim import UNDECIDED, Claim, Curve, Measured, Panel, Part, Step
from deeplimits.claims.one_thread import one_thread
from deeplimits.errors import DeepLimitsError
from deeplimits.plane.record import Estimate

if TYPE_CHECKING:
    from deeplimits.transfer.plan import Plan

HEADLINE = "parameters not shown to keep learning rate, decay and epsilon, stage 3"
SECONDS = 600
ROUNDING = 1e-3  # of losses after some tens of float32 steps, summed in another order


@dataclass(frozen=True)
class Sizes:
    """Processes that share the model, ZeRO stages, and steps of training."""

    processes: int
    stages: tuple[int, ...]
    steps: int


def engines(sizes: Sizes) -> Measured:
    """Train a planned transformer under DeepSpeed on the CPU, and look at its groups and its losses."""
    with one_thread():
        from deeplimits.claims.zero_stages import alone, planned

        plan = planned()
        losses = alone(plan, sizes.steps)
    x = [float(step) for step in range(sizes.steps)]
    curves = [Curve("torch alone", x, predicted=losses)]
    if find_spec("deepspeed") is None:
        test = "DeepSpeed is not installed here: pip install 'deeplimits[deepspeed]' and run the claim again"
        count = float(len(plan.rows))
        return Measured([Part(HEADLINE, 0.0, count, None, test, UNDECIDED, paper=False)], [_panel(curves)])
    found = _trained(sizes, plan)
    parts = []
    for stage, one in found["stages"].items():
        parts += _parts(int(stage), one, losses, sizes.steps, f"DeepSpeed {found['version']}")
        curves.append(Curve(f"ZeRO stage {stage}", x, one["losses"]))
    return Measured(parts, [_panel(curves)])


def _panel(curves: list[Curve]) -> Panel:
    return Panel("The same training, under every stage", "step", "loss", curves, x_scale="linear")


def _parts(stage: int, one: dict[str, Any], losses: list[float], steps: int, version: str) -> list[Part]:
    options: dict[str, Any] = {"paper": False}
    changed = max(one[moment] for moment in ("made", "trained", "resumed"))
    counted = f"of {one['parameters']}, by name: engine made, trained, resumed from a checkpoint in another; {version}"
    ratio, single = one["losses"][-1] / losses[-1], Estimate(one["one maximum"], 0.0)
    name = f"loss of step {steps} over that of torch alone, stage {stage}"
    ratios = f"relative error of the ratios of learning rates under WarmupLR, stage {stage}"
    return [
        agreement.equal(HEADLINE[:-1] + str(stage), 0.0, float(changed), 0.0, counted, **options),
        agreement.equal(name, 1.0, ratio, ROUNDING, "rounding of float32", **options),
        agreement.equal(
            ratios, 0.0, one["warmup"], 1e-12, "rounding of float64",
            note="maxima left out: each group's own are taken", **options,
        ),
        agreement.above(
            f"the same with one maximum for all groups, stage {stage}", 0.5, single, counts=False,
            note="this erases a plan; integrations.deepspeed gives each group its own", **options,
        ),
    ]  # fmt: skip


def _trained(sizes: Sizes, plan: Plan) -> dict[str, Any]:
    """Return what the processes found; none is left behind."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        plan.save(place / "plan.json")
        running = [_started(place, rank, sizes) for rank in range(sizes.processes)]
        try:
            for process in running:
                process.wait(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            why = f"DeepSpeed was not done after {SECONDS} s"
            raise DeepLimitsError("claims", why, "run the claim on an idle machine") from None
        finally:
            for process in running:
                process.kill()
                process.wait()
        failed = [rank for rank, process in enumerate(running) if process.returncode]
        if failed:
            last = (place / f"log-{failed[0]}").read_text().strip().splitlines()[-1:]
            raise DeepLimitsError("claims", f"DeepSpeed did not run: {''.join(last)}", "see whether it runs alone")
        return json.loads((place / "found.json").read_text(encoding="utf-8"))


def _started(place: Path, rank: int, sizes: Sizes) -> subprocess.Popen[bytes]:
    numbers = (rank, sizes.processes, sizes.steps, *sizes.stages)
    command = [sys.executable, "-m", "deeplimits.claims.zero_stages", str(place), *(str(n) for n in numbers)]
    with (place / f"log-{rank}").open("w") as log:
        return subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=log, stderr=log)


CLAIM = Claim(
    key="rajbhandari-2021-zero-infinity",
    statement=(
        "DeepSpeed's ZeRO, which partitions a model over processes without changing its code, takes a plan's parameter "
        "groups unchanged in every stage and trains as torch alone does."
    ),
    source="rajbhandari-2021-zero-infinity",
    headline=HEADLINE,
    steps=(Step("engines", engines, 60.0),),
    full=Sizes(2, (0, 1, 2, 3), 20),
    reduced=Sizes(1, (3,), 4),
)
