"""Makes a small model that knows nothing yet: a tokenizer learnt on text, a config of Marian's or Llama's shape, random weights.

`plankwise finetune` trains it. Files ending in .gz are unpacked.

    python recipes/make_model.py translator --texts multi30k/train.en.gz multi30k/train.de.gz
    python recipes/make_model.py decoder --texts wikitext2/wiki.train.raw --width 192
"""

import argparse
import gzip
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MarianConfig,
    MarianMTModel,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

SPECIAL = ("<pad>", "</s>", "<unk>")
IDS = {"pad_token_id": 0, "eos_token_id": 1}


def read_lines(paths: list[Path]) -> Iterator[str]:
    for path in paths:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
            yield from (line.strip() for line in file)


def make_tokenizer(lines: Iterator[str], vocabulary: int, max_length: int) -> PreTrainedTokenizerFast:
    """Pieces of words (BPE) of all languages together; a blank belongs to the word behind it."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=vocabulary, special_tokens=list(SPECIAL), show_progress=False)
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    names = dict(zip(("pad_token", "eos_token", "unk_token"), SPECIAL, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=max_length, **names)


def make_translator(vocabulary: int, width: int, layers: list[int], heads: int, max_length: int) -> MarianMTModel:
    """Encoder, decoder and output have a table of embeddings each: one that is shared cannot be factorised."""
    sides = {
        f"{side}_{key}": value
        for side, depth in zip(("encoder", "decoder"), (layers[0], layers[-1]), strict=True)
        for key, value in (("layers", depth), ("attention_heads", heads), ("ffn_dim", 4 * width))
    }
    tables = {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False}
    ids = {**IDS, "decoder_start_token_id": 0, "forced_eos_token_id": None}
    return MarianMTModel(
        MarianConfig(vocab_size=vocabulary, d_model=width, max_position_embeddings=max_length, **sides, **ids, **tables)
    )


def make_decoder(vocabulary: int, width: int, layers: list[int], heads: int, max_length: int) -> LlamaForCausalLM:
    """A language model whose output reads the table of embeddings."""
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=layers[0],
        num_attention_heads=heads,
        max_position_embeddings=max_length,
        tie_word_embeddings=True,
        bos_token_id=None,
        **IDS,
    )
    return LlamaForCausalLM(config)


KINDS: dict[str, Callable[..., PreTrainedModel]] = {"translator": make_translator, "decoder": make_decoder}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--texts", type=Path, nargs="+", required=True, help="text files, in all languages")
    parser.add_argument("--out", type=Path, help="folder for the model; the kind's name if absent")
    parser.add_argument("--vocabulary", type=int, default=4000, help="tokens, of all languages together")
    parser.add_argument("--width", type=int, default=128, help="of the states")
    parser.add_argument("--layers", type=int, nargs="+", default=[6], help="of the encoder and of the decoder")
    parser.add_argument("--heads", type=int, default=4, help="of each attention")
    parser.add_argument("--max-length", type=int, default=128, help="tokens that the model can read")
    given = parser.parse_args(arguments)
    torch.manual_seed(0)
    out = given.out or Path(given.kind)
    tokenizer = make_tokenizer(read_lines(given.texts), given.vocabulary, given.max_length)
    model = KINDS[given.kind](len(tokenizer), given.width, given.layers, given.heads, given.max_length)
    tokenizer.save_pretrained(out)
    model.save_pretrained(out)
    print(f"{out}: {len(tokenizer)} tokens, {model.num_parameters():,} parameters, not trained yet")


if __name__ == "__main__":
    main()
