"""`deeplimits doctor`: what is installed, what the machine offers, and whether known numbers come out."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

PACKAGES = ("torch", "numpy", "scipy", "numba", "scikit-learn", "matplotlib", "jinja2", "optuna", "cyclopts", "rich")
EXTRAS = {
    "gp": ("gpytorch",),
    "hf": ("transformers", "accelerate", "safetensors"),
    "scale": ("dask", "distributed"),
    "deepspeed": ("deepspeed",),
}


def doctor(*, json: Annotated[bool, Parameter(negative="")] = False) -> int:
    """Print versions, devices, threads and caches, and check a few known numbers in about five seconds.

    Exit code 1 where a check fails.

    Parameters
    ----------
    json
        Print one JSON document on stdout and nothing else.
    """
    from deeplimits.cli import console
    from deeplimits.cli.checks import checks

    facts = {**_software(), **_machine()}
    results = list(checks())
    healthy = all(result["passed"] for result in results)
    if json:
        console.document({"facts": facts, "checks": results, "healthy": healthy})
        return 0 if healthy else 1
    console.table(["what", "found"], [[name, str(value)] for name, value in facts.items()])
    print()
    rows = [["passed" if r["passed"] else "FAILED", r["name"], r["found"], f"{r['seconds']:.1f} s"] for r in results]
    console.table(["check", "of", "found", "time"], rows)
    print("\nall is well" if healthy else "\nsomething is wrong: the checks marked FAILED say what")
    return 0 if healthy else 1


def _software() -> dict[str, Any]:
    import platform
    from importlib import metadata
    from importlib.util import find_spec

    from deeplimits import __version__

    facts: dict[str, Any] = {
        "deeplimits": __version__,
        "Python": f"{platform.python_version()} on {platform.platform()}",
    }
    for package in PACKAGES:
        try:
            facts[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            facts[package] = "missing"
    for extra, modules in EXTRAS.items():
        missing = [module for module in modules if find_spec(module) is None]
        facts[f"extra {extra}"] = "installed" if not missing else f"absent: pip install 'deeplimits[{extra}]'"
    return facts


def _machine() -> dict[str, Any]:
    import os

    import numba
    import torch

    devices = ["cpu"] + [f"cuda:{i} ({torch.cuda.get_device_name(i)})" for i in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        devices.append("mps (no float64)")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else None
    return {
        "devices": ", ".join(devices),
        "memory": "unknown" if memory is None else f"{memory / 2**30:.1f} GiB",
        "cores": f"{os.cpu_count()}; torch uses {torch.get_num_threads()}, numba {numba.get_num_threads()}",
        "compile cache": _cache(),
    }


def _cache() -> str:
    """Where numba keeps compiled kernels, and whether it can."""
    import os
    from pathlib import Path

    import deeplimits

    own = os.environ.get("NUMBA_CACHE_DIR")
    folder = Path(own) if own else Path(deeplimits.__file__).parent
    kept = len(list(folder.rglob("*.nbi")))
    if os.access(folder, os.W_OK):
        return f"{kept} kernels kept under {folder}"
    return f"{folder} cannot be written: numba keeps its cache in the user's cache folder; NUMBA_CACHE_DIR moves it"
