"""Plans under accelerate and under the Trainer of transformers."""

from __future__ import annotations

import sys

import pytest
import torch

import deeplimits as dl
from deeplimits.integrations import trainer
from deeplimits.integrations.accelerate import prepare
from deeplimits.integrations.groups import numbers
from tests.integrations.conftest import SIZES
from tests.transfer.models import Mlp

RATE, DECAY = 2e-3, 0.1


@pytest.fixture
def accelerator():
    accelerate = pytest.importorskip("accelerate")
    yield accelerate.Accelerator(cpu=True)
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)


def test_prepared(plan, model, accelerator, tmp_path):
    """Groups by name, a schedule, and a checkpoint that is loaded into groups of another learning rate."""
    expected = numbers(plan.param_groups(model, lr=RATE, weight_decay=DECAY))
    model, optimizer = prepare(plan, accelerator, model, lr=RATE, weight_decay=DECAY)
    assert numbers(optimizer.param_groups) == expected
    schedule = accelerator.prepare(torch.optim.lr_scheduler.LambdaLR(optimizer.optimizer, lambda step: 1 / (1 + step)))
    x, y, losses = torch.randn(8, 12), torch.randint(3, (8,)), []
    for _ in range(5):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        accelerator.backward(loss)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        plan.guard(optimizer)
    assert losses[-1] < losses[0]
    accelerator.save_state(tmp_path)
    kept = numbers(optimizer.param_groups)
    for group in optimizer.param_groups:
        group["lr"] = 0.5
    accelerator.load_state(tmp_path)
    assert numbers(optimizer.param_groups) == kept
    plan.guard(optimizer)


class Forgetful:
    """Builds groups of its own."""

    def prepare(self, model, optimizer):
        return model, torch.optim.AdamW(model.parameters(), lr=RATE)


def test_groups_built_anew_are_refused(plan, model):
    with pytest.raises(dl.DeepLimitsError, match="groups were built anew: blocks"):
        prepare(plan, Forgetful(), model, lr=RATE)


class Labelled(Mlp):
    """What a Trainer asks of a model: a loss from its named arguments."""

    def forward(self, x, labels):
        logits = super().forward(x)
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


def train(plan, model, folder, steps, kind=None, **settings):
    from transformers import TrainingArguments

    arguments = TrainingArguments(
        str(folder),
        use_cpu=True,
        max_steps=steps,
        logging_steps=1,
        save_steps=2,
        report_to=[],
        disable_tqdm=True,
        learning_rate=RATE,
        weight_decay=DECAY,
        per_device_train_batch_size=4,
        **settings,
    )
    rows = [{"x": x, "labels": n % 3} for n, x in enumerate(torch.linspace(-1, 1, 96).reshape(8, 12))]
    return trainer.planned(plan, kind)(model, arguments, train_dataset=rows)


def labelled(plan):
    torch.manual_seed(0)
    model = Labelled(**SIZES["target"])
    plan.apply(model, initial=True)
    return model


def test_trainer(plan, tmp_path):
    """The arguments' numbers are the base's; a run that resumes from a checkpoint keeps ratios."""
    pytest.importorskip("accelerate")
    one = train(plan, labelled(plan), tmp_path, 4, lr_scheduler_type="cosine")
    assert numbers(one.create_optimizer().param_groups) == numbers(plan.param_groups(one.model, RATE, DECAY))
    one.train()
    assert (tmp_path / "checkpoint-2").is_dir()
    two = train(plan, labelled(plan), tmp_path, 4, lr_scheduler_type="cosine")
    two.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    for p, q in zip(one.model.parameters(), two.model.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-6, atol=1e-9)


def test_trainer_refuses_another_family_and_lost_ratios(plan, tmp_path):
    pytest.importorskip("accelerate")
    with pytest.raises(dl.DeepLimitsError, match="ask for SGD, the plan is for adamw"):
        train(plan, labelled(plan), tmp_path, 1, optim="sgd").create_optimizer()
    from transformers import Trainer

    class Flat(Trainer):
        def create_scheduler(self, num_training_steps, optimizer=None):
            for group in self.optimizer.param_groups:
                group["lr"] = RATE
            return super().create_scheduler(num_training_steps, optimizer)

    with pytest.raises(dl.DeepLimitsError, match="the plan says"):
        train(plan, labelled(plan), tmp_path, 3, kind=Flat).train()


def test_without_transformers(plan, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(dl.errors.MissingExtra, match=r"deeplimits\[hf\]"):
        trainer.planned(plan)
