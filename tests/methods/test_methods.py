"""The contract of every method, found by its file: trains a tiny model and yields a successor of the plan's depth."""

from types import SimpleNamespace

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from plankwise.config import validate_config
from plankwise.core.chain import find_chains
from plankwise.core.plan import even_plan
from plankwise.kinds import list_kinds, load_kind
from plankwise.methods._job import Job
from plankwise.training.stage import StageResult


def make_bert():
    torch.manual_seed(0)
    return BertForSequenceClassification(
        BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=4, num_attention_heads=2, intermediate_size=32)
    )


class LoopStage:
    """Stands in for a Stage: a plain loop, so that only the method is tested here."""

    def __init__(self, steps=6):
        self.steps = steps
        self.trained = set()

    def run(self, model, callbacks=(), *, settled=lambda: True, describe=lambda: ""):
        optimiser = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
        state = SimpleNamespace(max_steps=self.steps, global_step=0, log_history=[])
        before = {name: value.clone() for name, value in model.state_dict().items()}
        for callback in callbacks:
            callback.on_train_begin(None, state, None)
        model.train()
        ids = torch.arange(40).view(4, 10)
        for step in range(self.steps):
            state.global_step = step
            for callback in callbacks:
                callback.on_step_begin(None, state, None)
            model(input_ids=ids, labels=torch.tensor([0, 1, 0, 1])).loss.backward()
            optimiser.step()
            optimiser.zero_grad()
            assert isinstance(describe(), str)
        self.trained = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
        return StageResult("loop", self.steps, self.steps, 1.0, 1.0, self.steps, 0.5)


def compress(name, **options):
    module, stage, model = load_kind("methods", name, key="method.name"), LoopStage(), make_bert()
    job = Job(model, even_plan(find_chains(model), 2), "lower", 0, lambda stage_name: stage)
    return module.compress(job, module.Options(**options)), stage


@pytest.mark.parametrize("name", list_kinds("methods"))
def test_a_method_trains_and_yields_a_successor_of_the_plans_depth(name):
    outcome, stage = compress(name)
    assert type(outcome.successor) is BertForSequenceClassification
    assert outcome.successor.config.num_hidden_layers == len(outcome.successor.bert.encoder.layer) == 2
    assert stage.trained
    assert outcome.stage.steps == 6


@pytest.mark.parametrize("name", list_kinds("methods"))
def test_a_methods_defaults_name_keys_that_exist(name):
    config = validate_config({"method": {"name": name}})
    module = load_kind("methods", name, key="method.name")
    for section, values in module.defaults({}).items():
        assert {key: getattr(getattr(config, section), key) for key in values} == values


def test_finetuning_trains_all_of_the_truncated_model():
    outcome, stage = compress("finetune")
    trainable = {name for name, _ in outcome.successor.named_parameters()}
    assert trainable - stage.trained == set()


def test_replacing_trains_successors_only():
    _, stage = compress("replacing", schedule={"kind": "constant", "rate": 1.0})
    assert all(".successor." in name for name in stage.trained)


def test_steps_that_replaced_nothing_are_counted():
    outcome, stage = compress("replacing", schedule={"kind": "constant", "rate": 0.0, "full_at": 0.5})
    assert outcome.skipped_steps == 3
    assert stage.trained


def test_mode_reference_sets_the_published_codes_choices_and_each_can_be_set_alone():
    config = validate_config({"method": {"mode": "reference"}})
    method = config.method
    assert (method.clip_scope, method.idle_momentum, method.frozen_dropout, method.unfreeze) == (
        "all",
        True,
        True,
        "nothing",
    )
    assert (config.plan.init, config.training.lr_schedule, config.training.warmup_share) == ("first", "linear", 0.0)
    own = validate_config({"method": {"mode": "reference", "idle_momentum": False}, "plan": {"init": "upper"}})
    assert (own.method.idle_momentum, own.method.clip_scope, own.plan.init) == (False, "all", "upper")
