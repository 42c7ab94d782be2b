"""The script that makes untrained models: what it writes loads with transformers, reads its words and has the shape asked for."""

import gzip
import importlib.util
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

SCRIPT = Path(__file__).parent.parent.parent / "recipes" / "make_model.py"
LOADERS = {"decoder": AutoModelForCausalLM, "translator": AutoModelForSeq2SeqLM}
LINES = ["a man rides a horse", "ein Mann reitet ein Pferd"]


def load_script():
    spec = importlib.util.spec_from_file_location("make_model", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("kind", LOADERS)
def test_it_makes_a_model_and_a_tokenizer_that_reads_its_words(kind, tmp_path):
    plain, packed = tmp_path / "a.txt", tmp_path / "b.gz"
    plain.write_text(LINES[0] + "\n", "utf-8")
    with gzip.open(packed, "wt", encoding="utf-8") as file:
        file.write(LINES[1] + "\n")
    out = tmp_path / "made"
    sizes = ["--vocabulary", "60", "--width", "16", "--layers", "3", "2", "--heads", "2"]
    load_script().main([kind, "--texts", str(plain), str(packed), "--out", str(out), *sizes])
    tokenizer = AutoTokenizer.from_pretrained(out)
    for line in LINES:
        ids = tokenizer(line)["input_ids"]
        assert tokenizer.unk_token_id not in ids
        assert tokenizer.decode(ids, skip_special_tokens=True) == line
    config = LOADERS[kind].from_pretrained(out).config
    depths = (config.encoder_layers, config.decoder_layers) if kind == "translator" else (config.num_hidden_layers,)
    assert depths == ((3, 2) if kind == "translator" else (3,))
    assert config.vocab_size == len(tokenizer)
