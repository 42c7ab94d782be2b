"""One kind of each sort that plankwise can be given, one file each; `pyproject.toml` is all that names them."""
