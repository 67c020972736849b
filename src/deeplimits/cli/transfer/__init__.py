"""`deeplimits transfer`: settings tuned on a small model, carried to a large one, and the proof that they carry."""

from __future__ import annotations

from cyclopts import App

TARGET = """TARGET is module:function or file.py:function, where function(width, depth) returns
a torch.nn.Module; or a bundled example: mlp, resnet, vit, gpt.

Beside it in the module, found by name, may stand:

  train(model, groups, seed)  trains with an optimizer made from the groups,
                              and returns the final loss
  batch(seed)                 (inputs, labels) of one step; where there is no
                              train, a short training is made from it

Without either, models that take the bundled digits or text are trained on them."""
COMMANDS = {
    "plan": "What every parameter of the large model gets, relative to the small one.",
    "check": "Do activations, updates and logits keep their size as the model grows?",
    "sweep": "Where the best learning rate lies at each size, and whether it moves.",
    "report": "Plan, check and sweep as one page.",
    "demo": "Residual perceptrons on digits, growing in width and depth: what drifts, and what does not.",
    "rules": "The parametrizations; `rules explain NAME` prints the table of one.",
}

transfer = App(name="transfer", help_epilogue=TARGET, help_format="plaintext")
for _name, _words in COMMANDS.items():
    transfer.command(f"deeplimits.cli.transfer.{_name}:{_name}", name=_name, help=_words)
