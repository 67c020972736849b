"""Limits of training beyond `dl.gradient_flow` and `dl.mean_field`: `dl.training.max_learning_rate(net, X, depth=3)`.

docs/gradient-flow.md, docs/ntk-machines.md, docs/mean-field.md, docs/mean-ode.md, docs/one-hidden.md and
docs/deep-linear.md show them.
"""

from __future__ import annotations

from deeplimits.doors import door

_HOME: dict[str, str] = {
    "MeanField": "limits.training.mean_field.record",
    "MeanODE": "limits.training.branches.record",
    "MeanResNet": "architecture.branches",
    "mean_ode": "limits.training.branches.ask",
    "train_branches": "finite.branches",
    "one_hidden": "limits.training.one_hidden.ask",
    "projected": "limits.training.one_hidden.projected",
    "word2vec": "limits.training.one_hidden.word2vec",
    "ring_corpus": "limits.training.one_hidden.words",
    "maml": "limits.training.one_hidden.maml",
    "at_width": "limits.training.one_hidden.algorithm",
    "DeepLinear": "limits.training.linear.record",
    "BestRates": "limits.training.linear.best_rate_record",
    "EndToEnd": "limits.training.linear.end_to_end",
    "balanced": "limits.training.linear.balanced",
    "best_rate": "limits.training.linear.best_rate",
    "best_rate_law": "limits.training.linear.best_rate",
    "best_rates": "limits.training.linear.best_rate",
    "deep_linear": "limits.training.linear.ask",
    "mode_delay": "limits.training.linear.modes",
    "mode_strength": "limits.training.linear.modes",
    "mode_time": "limits.training.linear.modes",
    "GradientFlow": "limits.training.lazy.record",
    "heavy_ball": "limits.training.lazy.rate",
    "max_learning_rate": "limits.training.lazy.rate",
    "kernel_machine": "limits.training.machine.ask",
    "decay_path": "limits.training.machine.path",
    "Descent": "finite.train",
    "posterior_kernel": "limits.corrections.posterior",
}
"""{name: module of `deeplimits` that holds it}, imported when it is asked for."""

__all__ = sorted(_HOME)
__getattr__, __dir__ = door(__name__, _HOME, "deeplimits")
