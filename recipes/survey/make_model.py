"""Makes a small translator that knows nothing yet: a tokenizer learnt on parallel text, a config of Marian's shape, random weights.

`plankwise finetune` trains it. Files ending in .gz are unpacked.

    python recipes/survey/make_model.py --texts multi30k/train.en.gz multi30k/train.de.gz --out translator
"""

import argparse
import gzip
from collections.abc import Iterator
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import MarianConfig, MarianMTModel, PreTrainedTokenizerFast

SPECIAL = ("<pad>", "</s>", "<unk>")


def read_lines(paths: list[Path]) -> Iterator[str]:
    for path in paths:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
            yield from (line.strip() for line in file)


def make_tokenizer(lines: Iterator[str], vocabulary: int, max_length: int) -> PreTrainedTokenizerFast:
    """Pieces of words (BPE) of both languages together; a blank belongs to the word behind it."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=vocabulary, special_tokens=list(SPECIAL), show_progress=False)
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    names = dict(zip(("pad_token", "eos_token", "unk_token"), SPECIAL, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=max_length, **names)


def make_model(vocabulary: int, width: int, layers: tuple[int, int], heads: int, max_length: int) -> MarianMTModel:
    """Encoder, decoder and output have a table of embeddings each: one that is shared cannot be factorised."""
    sides = {
        f"{side}_{key}": value
        for side, depth in zip(("encoder", "decoder"), layers, strict=True)
        for key, value in (("layers", depth), ("attention_heads", heads), ("ffn_dim", 4 * width))
    }
    tables = {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False}
    ids = {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0, "forced_eos_token_id": None}
    return MarianMTModel(
        MarianConfig(vocab_size=vocabulary, d_model=width, max_position_embeddings=max_length, **sides, **ids, **tables)
    )


def main(texts: list[Path], out: Path, *, vocabulary: int, width: int, layers: tuple[int, int], heads: int) -> None:
    torch.manual_seed(0)
    tokenizer = make_tokenizer(read_lines(texts), vocabulary, 128)
    model = make_model(len(tokenizer), width, layers, heads, 128)
    tokenizer.save_pretrained(out)
    model.save_pretrained(out)
    print(f"{out}: {len(tokenizer)} tokens, {model.num_parameters():,} parameters, not trained yet")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=Path, nargs="+", required=True, help="text files of both languages")
    parser.add_argument("--out", type=Path, required=True, help="folder for the model")
    parser.add_argument("--vocabulary", type=int, default=4000, help="tokens, of both languages together")
    parser.add_argument("--width", type=int, default=128, help="of the states")
    parser.add_argument("--layers", type=int, nargs=2, default=(6, 6), help="of the encoder and of the decoder")
    parser.add_argument("--heads", type=int, default=4, help="of each attention")
    given = parser.parse_args()
    sizes = {"vocabulary": given.vocabulary, "width": given.width, "layers": tuple(given.layers), "heads": given.heads}
    main(given.texts, given.out, **sizes)
