"""What tests of the parts for sublayers and embeddings share: tiny models, their paths, and a plan's successor."""

import copy

import torch
import transformers

from plankwise.config import PlanOptions
from plankwise.models.plans import assemble, build_successors, make_plan, take_out

SMALL = {
    "vocab_size": 30, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24,
    "max_position_embeddings": 32, "initializer_range": 0.3, "pad_token_id": 0,
}  # fmt: skip
TOKENS = {"bos_token_id": 1, "eos_token_id": 2}
MODELS = {
    "bert": ("BertForSequenceClassification", SMALL),
    "roberta": ("RobertaForSequenceClassification", SMALL),
    "distilbert": (
        "DistilBertForSequenceClassification",
        {"dim": 16, "n_layers": 2, "n_heads": 4, "hidden_dim": 24, "vocab_size": 30, "initializer_range": 0.3},
    ),
    "gpt2": ("GPT2LMHeadModel", {"n_embd": 16, "n_layer": 2, "n_head": 4, "vocab_size": 30, "initializer_range": 0.3}),
    "llama": ("LlamaForCausalLM", {**SMALL, **TOKENS, "num_key_value_heads": 2, "tie_word_embeddings": False}),
    "t5": (
        "T5ForConditionalGeneration",
        {"vocab_size": 30, "d_model": 16, "d_kv": 4, "d_ff": 24, "num_layers": 2, "num_heads": 4},
    ),
}


def make(name="bert", **more):
    torch.manual_seed(0)
    class_name, options = MODELS[name]
    config = transformers.AutoConfig.for_model(name, **{**options, **more})
    return getattr(transformers, class_name)(config).eval()


def make_inputs(model):
    """Two texts; the second has three tokens of padding."""
    ids = torch.randint(3, 30, (2, 7), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    ids[1, 4:] = mask[1, 4:] = 0
    more = {"decoder_input_ids": ids} if model.config.is_encoder_decoder else {}
    return {"input_ids": ids, "attention_mask": mask, **more}


@torch.no_grad()
def logits(model):
    return model(**make_inputs(model)).logits


def plan_of(model, part, *paths, **options):
    """A plan with one part at all of the paths."""
    return make_plan(model, PlanOptions(part=part, options=options, slots=[{"path": path} for path in paths]))


def successor_of(model, plan, init="lower"):
    """The successor by itself, with the weights that it starts from; the model is left as it is."""
    model = copy.deepcopy(model)
    return take_out(assemble(model, plan, build_successors(model, plan, init=init, seed=0)))
