"""The contract of every file of `families`, plug-ins included, on models without weights."""

import pytest
import torch
from transformers import AutoConfig, AutoModel
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from plankwise.core.chain import find_chains
from plankwise.errors import PlanError
from plankwise.families import chains_of, family_of, shortened
from plankwise.kinds import list_kinds, load_kind, summary
from plankwise.models.planned_config import MODEL_TYPE

FAMILIES = {name: load_kind("families", name, key="model_type") for name in list_kinds("families")}
OF_TRANSFORMERS = [name for name in FAMILIES if name != MODEL_TYPE]  # the rest is ours


def make(config):
    with torch.device("meta"):
        return AutoModel.from_config(config)


def config_of(name):
    # No architectures are not None: where a family has several models, transformers looks for one of them there.
    return AutoConfig.for_model(
        next(known for known in CONFIG_MAPPING if known.replace("-", "_") == name), architectures=[]
    )


def refusal_of(work):
    """The sentence that it refuses with, or None."""
    try:
        work()
    except PlanError as error:
        return str(error)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_says_what_it_is_and_offers_something(name):
    assert summary("families", name)
    assert hasattr(FAMILIES[name], "check") or hasattr(FAMILIES[name], "shorten")


@pytest.mark.parametrize("name", OF_TRANSFORMERS)
def test_a_family_is_found_by_its_models(name):
    assert family_of(make(config_of(name))) is FAMILIES[name]


@pytest.mark.parametrize("name", [name for name in OF_TRANSFORMERS if hasattr(FAMILIES[name], "check")])
def test_a_check_passes_or_refuses_with_a_sentence_and_has_a_say_before_chains_are_found(name):
    model = make(config_of(name))
    said = refusal_of(lambda: FAMILIES[name].check(model))
    assert refusal_of(lambda: chains_of(model)) == said
    if said is None:
        assert chains_of(model) == find_chains(model)


@pytest.mark.parametrize("name", [name for name in OF_TRANSFORMERS if hasattr(FAMILIES[name], "shorten")])
def test_a_shortened_config_makes_a_model_of_the_kept_depth_and_the_models_own_is_left_as_it_was(name):
    config = config_of(name)
    model = make(config)
    before = model.config.to_dict()
    chain = chains_of(model)[0]
    short = make(shortened(model, {chain.path: list(range(0, chain.length, 2))}))
    assert len(short.get_submodule(chain.path)) == (chain.length + 1) // 2
    assert model.config.to_dict() == before
