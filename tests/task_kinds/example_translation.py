"""A few sentences with translations word by word, and a model of Marian's shape, for the contract of every kind of task."""

import gzip
from pathlib import Path

WORDS = {"the": "das", "a": "ein", "ship": "Schiff", "plank": "Brett", "sees": "sieht", "and": "und", "finds": "findet"}
NOUNS, VERBS, ARTICLES = ("ship", "plank"), ("sees", "finds"), ("the", "a")


def pairs(count: int) -> list[tuple[str, str]]:
    made = []
    for index in range(count):
        bits = [index >> place & 1 for place in range(6)]
        words = [ARTICLES[bits[0]], NOUNS[bits[1]], VERBS[bits[2]], ARTICLES[bits[3]], NOUNS[bits[4]]]
        words += ["and", "the", NOUNS[bits[5]]]
        made.append((" ".join(words), " ".join(WORDS[word] for word in words)))
    return made


def write(folder: Path, name: str, some: list[tuple[str, str]]) -> list[str]:
    """Two files, line by line, the second one packed by gzip."""
    (folder / f"{name}.en").write_text("".join(f"{source}\n" for source, _ in some), "utf-8")
    (folder / f"{name}.de.gz").write_bytes(gzip.compress("".join(f"{target}\n" for _, target in some).encode()))
    return [str(folder / f"{name}.en"), str(folder / f"{name}.de.gz")]


def section(folder: Path) -> dict:
    """Writes the examples, and gives the [task] section that reads them."""
    made = pairs(64)
    return {"name": "translation", "train": write(folder, "train", made[:48]), "dev": write(folder, "dev", made[48:])}


def model(folder: Path) -> Path:
    """Saves an untrained translator with a tokenizer of the words of both languages."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import MarianConfig, MarianMTModel, PreTrainedTokenizerFast

    words = ["<pad>", "</s>", "<unk>", *WORDS, *WORDS.values()]
    tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    names = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=64, **names)
    fast.save_pretrained(folder)
    sizes = {"d_model": 32, "encoder_layers": 4, "decoder_layers": 2, "max_position_embeddings": 64}
    sides = {
        f"{side}_{key}": value
        for side in ("encoder", "decoder")
        for key, value in (("attention_heads", 2), ("ffn_dim", 64))
    }
    ids = {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0, "forced_eos_token_id": None}
    torch.manual_seed(0)
    MarianMTModel(MarianConfig(vocab_size=len(words), **sizes, **sides, **ids)).save_pretrained(folder)
    return folder
