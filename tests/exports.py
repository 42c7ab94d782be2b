"""What tests of exports share: models of several families, and predict.py in a process of its own."""

import subprocess
import sys

import torch
from transformers import AutoConfig, AutoModelForSequenceClassification

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
SMALL = {**SIZES, "vocab_size": 25, "max_position_embeddings": 66, "pad_token_id": 0}
FAMILIES = {
    "bert": {},
    "roberta": {"type_vocab_size": 1},
    "distilbert": {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 48},
    "electra": {"embedding_size": 16},
    "mpnet": {},
}


def make(family, *, blocks=2, labels=3):
    torch.manual_seed(0)
    own = {**FAMILIES[family], ("n_layers" if "n_layers" in FAMILIES[family] else "num_hidden_layers"): blocks}
    sizes = {"vocab_size": 25, "max_position_embeddings": 66, "pad_token_id": 0} if "dim" in own else SMALL
    return AutoModelForSequenceClassification.from_config(
        AutoConfig.for_model(family, **{**sizes, **own}, num_labels=labels)
    )


ALONE = """
import runpy, sys

ALLOWED = {*sys.stdlib_module_names, "numpy", "tokenizers", RUNTIME}


class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in ALLOWED:
            raise ModuleNotFoundError(f"{name} is not there", name=name)


sys.meta_path.insert(0, Blocker())
sys.argv = [SCRIPT, *TEXTS]
runpy.run_path(SCRIPT, run_name="__main__")
assert not {"torch", "transformers", "plankwise"} & set(sys.modules)
"""


def run_alone(folder, runtime, *texts):
    """What predict.py prints for the texts, in a process in which only what it says it needs can be imported."""
    names = {"RUNTIME": runtime, "SCRIPT": str(folder / "predict.py"), "TEXTS": texts}
    given = "".join(f"{name} = {value!r}\n" for name, value in names.items())
    done = subprocess.run([sys.executable, "-I", "-c", given + ALONE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
