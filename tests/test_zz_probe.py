import json, traceback, shutil, pytest


def test_probe(command, recipe, tmp_path, tiny, tiny_model_folder, tiny_classifier_folder, table_file):
    def go(*a):
        try:
            r = command(*a)
        except BaseException as e:
            tb = traceback.extract_tb(e.__traceback__)[-1]
            r = None
            msg = f"!!! TRACEBACK {type(e).__name__}: {str(e)[:300]} at {tb.filename}:{tb.lineno}"
        else:
            msg = f"code {r.code}: {r.err.strip()}" + (
                f" OUT: {r.out.strip()[:1500]}" if r.code != 2 or not r.err.startswith("plankwise:") else ""
            )
        left = (tmp_path / "run").exists()
        with open("/tmp/probe.txt", "a") as f:
            f.write(
                f"## {' '.join(str(x) for x in a if x not in ('compress', recipe))}\n{msg}{'  <<<RUN FOLDER LEFT>>>' if left else ''}\n\n"
            )
        if left and (tmp_path / "run").is_dir():
            shutil.rmtree(tmp_path / "run")

    c = lambda *o: go("compress", recipe, *o)
    open("/tmp/probe.txt", "w").close()
    for o in [
        "plan.part=layer",
        "plan.successors=0",
        "plan.successors=x",
        "method=kd",
        "run=3",
        "plan=3",
        "task=3",
        "method.name=3",
        "task.name=3",
        "predecessor.finetune=maybe",
        "plan.init=lowr",
        "training.epochs=0",
        "training.batch_size=2.5",
        "training.precision=float8",
        "training.warmup_share=1",
        "run.name=a/b",
        "evaluation.latency_batch_sizes=[]",
        "evaluation.latency_batch_sizes=[0]",
        "plan.chains=[]",
        "plan.slots=[{pat=1}]",
        "task.text={a=1}",
        "task.label=[1]",
        "training.learning_rate=nan",
        "plan.successors.x=3",
        "method.clip_scope=foo",
        "task.name=glue",
        "training.report_to=[true]",
    ]:
        c(o)
    c("plan.sucessors=3", "trainig.epochs=2", "method.name=kdd", "training.epochs=0")
    c("plan.successors=2", "plan.spans=[[0,1]]")
    for s in ["[[0,1],[1,2]]", "[[0,2]]", "[]", "[[]]", "[[1,0]]"]:
        go("compress", recipe, "plan.spans=" + s) if False else None
    t = recipe.read_text().replace("successors = 2", "")
    r2 = tmp_path / "two.toml"
    r2.write_text(t)
    for s in ["[[0,1],[1,2]]", "[[0,2]]", "[]", "[[]]", "[[1,0]]", "[[0,9]]", "[[-1,0]]", "[[0,1,2,3,4]]"]:
        go("compress", r2, "plan.spans=" + s)
    go("compress", tmp_path / "none.toml")
    go("compress", tmp_path)
    (tmp_path / "bad.toml").write_text("a b c")
    go("compress", tmp_path / "bad.toml")
    (tmp_path / "lat.toml").write_bytes(b"a='\xff'")
    go("compress", tmp_path / "lat.toml")
    # models
    c(f"predecessor.path={tmp_path / 'nomodel'}")
    c("predecessor.path=nomodel")
    c("predecessor.path=no/model")
    c(f"predecessor.path={tmp_path}")
    c(f"predecessor.path={table_file}")
    m = tmp_path / "m1"
    shutil.copytree(tiny_model_folder, m)
    (m / "config.json").write_text("{nope")
    c(f"predecessor.path={m}")
    m = tmp_path / "m1b"
    shutil.copytree(tiny_model_folder, m)
    (m / "config.json").write_text("{}")
    c(f"predecessor.path={m}")
    m = tmp_path / "m2"
    shutil.copytree(tiny_model_folder, m)
    (m / "model.safetensors").unlink()
    c(f"predecessor.path={m}")
    m = tmp_path / "m3"
    shutil.copytree(tiny_model_folder, m)
    b = (m / "model.safetensors").read_bytes()
    (m / "model.safetensors").write_bytes(b[: len(b) // 2])
    c(f"predecessor.path={m}")
    m = tmp_path / "m4"
    shutil.copytree(tiny_model_folder, m)
    for f in ("vocab.txt", "tokenizer.json", "tokenizer_config.json"):
        (m / f).unlink(missing_ok=True)
    c(f"predecessor.path={m}")
    from transformers import AlbertConfig, AlbertModel

    m = tmp_path / "albert"
    AlbertModel(
        AlbertConfig(
            vocab_size=30,
            embedding_size=16,
            hidden_size=32,
            num_hidden_layers=4,
            num_attention_heads=2,
            intermediate_size=64,
            max_position_embeddings=64,
        )
    ).save_pretrained(m)
    tiny.save_tokenizer(m)
    c(f"predecessor.path={m}")
    # csv
    c("task.text=sentnce")

    def csvf(text, enc="utf-8"):
        p = tmp_path / "x.csv"
        p.write_bytes(text.encode(enc))
        c(f"task.train={p}")

    csvf("")
    csvf("sentence,label\n")
    csvf("sentence,label\na,x\nb,x\n")
    csvf("sentence,label\né,x\nb,y\n", "latin-1")
    c(f"task.train={tmp_path / 'nofile.csv'}")
    p = tmp_path / "dev.csv"
    p.write_text("sentence,label\nx,positive\ny,neutrl\n")
    c(f"task.dev={p}")
    # folder
    (tmp_path / "run").write_text("x")
    go("compress", recipe)
    (tmp_path / "run").unlink()
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "x").write_text("x")
    c(f"run.folder={tmp_path / 'f'}")
    (tmp_path / "g").mkdir()
    (tmp_path / "g" / "config.toml").write_text("x y")
    c(f"run.folder={tmp_path / 'g'}")
    c(f"run.folder={table_file}/x")
    c(f"predecessor.path={tiny_classifier_folder}", "predecessor.training.epochs=1")
    sw = tiny.save_bert(tmp_path / "sw", names=("positive", "negative"))
    c(f"predecessor.path={sw}")
    sw = tiny.save_bert(tmp_path / "sw3", names=("a", "b", "c"))
    c(f"predecessor.path={sw}")
    c("training.precision=float16")
    c("training.report_to=['tensorbord']")
    c()
    # predict/evaluate
    e = lambda *o: go("evaluate", tiny_classifier_folder, *o)
    e()
    e("training.max_length=64")
    tt = [f"task.name=table", f"task.train={table_file}", "task.text=sentence", "task.label=label"]
    e(*tt)
    e(*tt, "training.max_length=16")
    go("evaluate", sw, *tt, "training.max_length=16")
    pr = lambda *o: go("predict", tiny_classifier_folder, *o)
    pr()
    pr("--table", table_file)
    pr("--table", table_file, "--text", "sentence")
    pr("--table", table_file, "--text", "sentence", "training.max_length=16", "--out", tmp_path)
    pr("--table", table_file, "--text", "sentenc", "training.max_length=16", "--out", tmp_path / "o.csv")
    pr(
        "--table",
        table_file,
        "--text",
        "sentence",
        "training.max_length=16",
        "--out",
        tmp_path / "o.csv",
        "--encoding",
        "foo",
    )
    pr(
        "--table",
        table_file,
        "--text",
        "sentence",
        "training.max_length=16",
        "--out",
        tmp_path / "o.csv",
        "--separator",
        ";;",
    )
    pr("--table", table_file, "--text", "sentence", "training.max_length=4", "--out", tmp_path / "o.csv")
    pr("--table", table_file, "--text", "sentence", "training.max_length=16", "--out", table_file / "o.csv")
    go("predict", tiny_model_folder, "--table", table_file, "--text", "sentence")
    go("evaluate", tmp_path)
    go("list", "scheduls")
    go("lst")
    go("list")
    go("compress")
    for k in ("methods", "parts", "tasks", "schedules"):
        go("list", k)
    for k in ("list", "predict", "evaluate", "demo", "compress"):
        go(k, "--help")
