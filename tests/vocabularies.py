"""Tokenizers of every kind that can be trimmed, trained in code on a few lines of several scripts, and tiny models for them."""

import random
import string

from tokenizers import SentencePieceBPETokenizer, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

CORPUS = [
    "the film is a quiet triumph, and its music is superb",
    "an awful, boring plot with weak actors and a dull ending",
    "sailing ships were rebuilt plank by plank while they sailed",
    "whatever the scene, whoever the actor: unbelievably unwatchable",
    "ein schöner Film über Zürich und größere Städte, naïve façades",
    "быстрая лиса прыгает через ленивую собаку",
    "映画はとても美しい 日本語のテキスト",
    "emoji 😂🚢 and symbols § ± × ∞, numbers 12345 67890",
    "repeated repeated repeating repetition repeat superbly filmed films",
] * 4
DOMAIN = ["the film is superb", "an awful plot, and a dull ending", "its music is a quiet triumph", "a weak film"]
SCRIPTS = [
    (0x20, 0x7E),
    (0xA0, 0x24F),
    (0x400, 0x45F),
    (0x3040, 0x30FF),
    (0x4E00, 0x4E80),
    (0x1F600, 0x1F640),
    (0, 0x1F),
]
WORDS = sorted({word for line in CORPUS for word in line.split()})


def make_word_piece():
    from transformers import BertTokenizer

    backend = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    backend.normalizer, backend.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "thethe", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    backend.train_from_iterator(CORPUS, trainers.WordPieceTrainer(vocab_size=400, special_tokens=special))
    return BertTokenizer(vocab=backend.get_vocab())


def make_byte_bpe(kind: str = "RobertaTokenizer"):
    import transformers

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"] if kind == "RobertaTokenizer" else ["<|endoftext|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=special, initial_alphabet=alphabet)
    backend.train_from_iterator(CORPUS, trainer)
    import json

    data = json.loads(backend.to_str())["model"]
    return getattr(transformers, kind)(vocab=data["vocab"], merges=[tuple(pair) for pair in data["merges"]])


def make_fallback_bpe():
    """As Llama's: characters that are not known fall back to bytes."""
    from transformers import PreTrainedTokenizerFast

    backend = SentencePieceBPETokenizer()._tokenizer
    special = ["<unk>", "<s>", "</s>", *(f"<0x{value:02X}>" for value in range(256))]
    backend.train_from_iterator(CORPUS[:4], trainers.BpeTrainer(vocab_size=500, special_tokens=special))
    import json

    data = json.loads(backend.to_str())
    data["model"] |= {"byte_fallback": True, "unk_token": "<unk>", "fuse_unk": True}
    data["added_tokens"] = data["added_tokens"][:3]
    backend = Tokenizer.from_str(json.dumps(data))
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>", eos_token="</s>", pad_token="</s>")


def make_unigram(kind: str = "XLMRobertaTokenizer"):
    import json

    import transformers

    backend = Tokenizer(models.Unigram())
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    special = {
        "XLMRobertaTokenizer": ["<s>", "<pad>", "</s>", "<unk>"],
        "T5Tokenizer": ["<pad>", "</s>", "<unk>"],
        "AlbertTokenizer": ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"],
    }[kind]
    trainer = trainers.UnigramTrainer(vocab_size=300, special_tokens=special, unk_token="<unk>")
    backend.train_from_iterator(CORPUS, trainer)
    vocabulary = [(token, score) for token, score in json.loads(backend.to_str())["model"]["vocab"]]
    return getattr(transformers, kind)(vocab=vocabulary)


MAKERS = {
    "WordPiece": make_word_piece,
    "RoBERTa's BPE": make_byte_bpe,
    "GPT-2's BPE": lambda: make_byte_bpe("GPT2Tokenizer"),
    "BPE with bytes": make_fallback_bpe,
    "XLM-R's Unigram": make_unigram,
    "T5's Unigram": lambda: make_unigram("T5Tokenizer"),
    "ALBERT's Unigram": lambda: make_unigram("AlbertTokenizer"),
}


def save_with_letters(save, folder, words, more=(), **changes):
    """Saves a tiny model by `save` with a tokenizer of `words`, all letters, which any other word falls into, and `more`."""
    from transformers import BertTokenizer

    letters = [letter for letter in string.ascii_lowercase if letter not in words]
    known = [*words, *letters, *(f"##{letter}" for letter in string.ascii_lowercase), *more]
    save(folder, vocab_size=len(known), **changes)
    for file in (*folder.glob("*token*"), folder / "vocab.txt"):
        file.unlink()
    BertTokenizer(vocab={word: index for index, word in enumerate(known)}, model_max_length=64).save_pretrained(folder)
    return folder


def random_texts(count: int, seed: int = 0) -> list[str]:
    """Random strings over several scripts, emoji and control characters, and words of the corpus cut and joined anew."""
    chance = random.Random(seed)

    def piece() -> str:
        if chance.random() < 0.9:
            word = chance.choice(WORDS)
            start = chance.randrange(len(word))
            return word[start : start + chance.randint(1, 8)]
        low, high = chance.choice(SCRIPTS)
        return "".join(chr(chance.randint(low, high)) for _ in range(chance.randint(1, 5)))

    return ["".join(piece() + chance.choice(["", "", " "]) for _ in range(chance.randint(1, 6))) for _ in range(count)]
