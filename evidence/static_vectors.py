"""Static embeddings that model2vec distils from a sentence encoder, measured as `plankwise compare` measures its rows.

    python evidence/static_vectors.py recipes/embedding.toml predecessor.path=MODEL task.path=texts.txt task.sts=… task.retrieval=…

Their own vectors are measured, not mapped onto the predecessor's as `plankwise frontier` does, so that there is no cosine to it.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from model2vec.distill import distill_from_model
from rich.console import Console

from plankwise.config import load_data, validate_config
from plankwise.evaluation.vectors import find_neighbours, score_retrieval, score_similarity, share_kept
from plankwise.run.sharing import make_predecessor, open_inputs


def main() -> None:
    recipe, *overrides = sys.argv[1:]
    with TemporaryDirectory() as folder:
        data = load_data(Path(recipe), overrides)
        config = validate_config({**data, "run": {"folder": folder}})
        ready = make_predecessor(open_inputs(config, Console(quiet=True)))
        task: Any = ready.run.task
        model: Any = ready.load()
        static = distill_from_model(model.model, ready.run.tokenizer, pca_dims=256, device="cpu", quantize_to="float32")
        vectors = static.encode(task.dev_texts)
        found = {"neighbours": float(share_kept(find_neighbours(vectors), find_neighbours(task.reference)).mean())}
        if task.similarities is not None:
            sentences = static.encode(task.similarities.texts)
            files = task.similarities.files.values()
            found["sts_spearman"] = float(np.mean([score_similarity(sentences, *file) for file in files]))
        if task.retrieval is not None:
            queries, corpus = (static.encode(texts) for texts in (task.retrieval.queries, task.retrieval.corpus))
            found |= score_retrieval(queries, corpus, task.retrieval.relevant)
    parameters = static.embedding.size
    print({"parameters": parameters, **{name: round(value, 4) for name, value in found.items()}})


if __name__ == "__main__":
    main()
