"""Loads what the plug-in's runs have saved, first without plankwise, then with it.

Arguments: the folder of a planned successor, of a plain one, of the first's run, a sentence, and the file to write.
"""

# ruff: noqa: E402
import copy
import sys

import torch

tags, plain, whole_run, sentence, out = sys.argv[1:]
sys.modules["plankwise"] = None  # importing it fails from here on
import transformers
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoModelForTokenClassification, pipeline

found = {"refusals": {}}
for name, load in {
    "config": AutoConfig.from_pretrained,
    "auto": AutoModelForTokenClassification.from_pretrained,
    "pipeline": lambda path: pipeline("token-classification", model=path),
    "class": transformers.BertForTokenClassification.from_pretrained,
}.items():
    try:
        found["refusals"][name] = f"loaded a {type(load(tags)).__name__}"
    except Exception as error:
        found["refusals"][name] = f"{type(error).__name__}: {error}"


def look(model, path):
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    inputs = tokenizer(sentence, return_tensors="pt")
    # A copy: weights that are mapped from a file may be unaligned, and then differ in the last bit of a product.
    with torch.no_grad():
        logits = copy.deepcopy(model).eval()(**inputs).logits
    words = tokenizer.convert_ids_to_tokens(inputs["input_ids"][0])
    return {"state": model.state_dict(), "logits": logits, "words": words, "class": type(model).__name__}


found["plain"] = look(AutoModelForSequenceClassification.from_pretrained(plain), plain)
del sys.modules["plankwise"]
import plankwise

found["load"] = look(plankwise.load(tags), tags)
found["load run"] = look(plankwise.load(whole_run), tags)
found["auto"] = look(AutoModelForTokenClassification.from_pretrained(tags), tags)
found["pipeline"] = [(one["word"], one["entity"]) for one in pipeline("token-classification", model=tags)(sentence)]
torch.save(found, out)
