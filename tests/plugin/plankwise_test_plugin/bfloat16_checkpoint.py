"""A checkpoint in bfloat16, for the runtime that computes in it."""

import copy

import torch

PRECISIONS = ("bf16",)
QUANTISES = ()
RUNTIME = "cpu_bfloat16"
NEEDS = ("torch", "transformers")


def check_installed():
    return


def script(planned):
    return "def run(batch):\n    raise NotImplementedError"


def write(traced, folder, how):
    copy.deepcopy(traced.model).to(torch.bfloat16).save_pretrained(folder)
    return ("model.safetensors",)
