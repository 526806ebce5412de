"""Misuse of every verb: exit code 2, one message of at most three lines, and no file changed, lost or left behind.

Each case is a command and the essential words of its message. The commands run in this process, in a folder of small
files and runs (`place`).
"""

import io
import json
import shlex
import shutil
import sys
from pathlib import Path

import pytest

import dragoman
from dragoman.cli import main
from tests.small_runs import dragoman as dragoman_process
from tests.small_runs import hashes
from tests.small_tasks import config_of, write_texts
from tests.untrained_runs import finished_language_model, finished_run

LONG = "x" * 300
CASES = {
    # no verb
    "translat": ("translat:", "dragoman translate"),
    "predict translator": ("dragoman translate",),
    "preprocess": ("dragoman data prepare",),
    "fit": ("dragoman train",),
    "sacrebleu": ("dragoman evaluate",),
    "diff translator lm": ("dragoman compare",),
    "--beam 3": ("--beam", "--help"),
    # translate
    "translate": ("RUN",),
    "translate nowhere": ("nowhere:", "not a run folder"),
    "translate notes.txt": ("notes.txt:", "not a run folder", "it is a file", "--input"),
    "translate translater": ("does not exist. Did you mean translator?",),
    "translate translator --input shrt.en": ("shrt.en: cannot be read", "did you mean short.en?"),
    "train trian.en --out new": ("did you mean train.en?",),
    "train --resume translater": ("Did you mean translator?",),
    "translate folder": ("folder:", "not a run folder"),
    "translate ''": (),
    "translate unfinished": ("unfinished:", "train --resume unfinished"),
    "translate 'with space/run'": ("train --resume 'with space/run'",),
    "translate damaged": ("model.safetensors",),
    "translate tokenless": ("tokenizer.json",),
    "translate typing": ("model.d_model", "must be an integer"),
    "translate yaml": ("config.yaml, line 2", "YAML"),
    "translate newer": ("format_version 9",),
    "translate lm": ("generator", "dragoman generate lm"),
    "serve": ("No model is named", "dragoman serve en-de=runs/en-de"),
    "serve nowhere --port 0": ("nowhere",),
    "serve en-de=translator en-de=ensemble --port 0": ("same name", "NAME=PATH"),
    "serve en-de=translator --port many": ("--port",),
    "serve en-de=translator --port 0 --set limits.max_texts=0": ("limits.max_texts",),
    "serve en-de=translator --port 0 --set limits.max_text=5": ("limits.max_text", "max_texts"),
    "serve en-de=translator --config missing.yaml": ("missing.yaml",),
    "serve en-de=translator --add-key anna": ("--api-keys FILE",),
    "serve en-de=translator --api-keys short.en --port 0": ("short.en:1", "--add-key"),
    "embed": ("RUN",),
    "embed nowhere": ("nowhere",),
    "embed translator": ("dragoman translate translator",),
    "embed encoder --input missing.txt": ("missing.txt",),
    "embed encoder --input short.en --output folder": ("folder", "is a folder"),
    "embed encoder --input short.en --output nowhere/x.npy": ("nowhere/x.npy",),
    "pull": ("REPOSITORY",),
    "pull org/model": ("--output-dir",),
    "pull org/model/file --out new": ("'org/model/file' is no name of a model", "ORGANIZATION/MODEL"),
    "pull org/model --out new --format ggml": ("format = ggml", "gguf"),
    "pull org/model --out translator": ("translator: exists",),
    "push": ("RUN",),
    "push translator": ("REPOSITORY",),
    "push translator model": ("no name of a model", "ORGANIZATION/MODEL"),
    "translate encoder": ("embedder", "dragoman embed encoder"),
    "translate classifier": ("dragoman classify classifier",),
    "translate answerer": ("dragoman answer answerer",),
    "translate translator --input short.en --constraints missing.jsonl": ("missing.jsonl", "cannot be read"),
    "translate translator --input short.en --constraints broken.jsonl": ("broken.jsonl:1", "JSON list"),
    "translate translator --input short.en --constraints empty.txt": ("empty.txt", "is empty"),
    "translate translator --input short.en --constraints unkind.jsonl": ("unkind.jsonl:1: [1]", "'some'", "forbidden"),
    "translate translator --input short.en --constraints blank.txt --ray": ("--constraints", "--ray"),
    "translate translator --file missing.po": ("missing.po", "cannot be read"),
    "translate translator --file short.en": ("short.en", "known document format", "po"),
    "translate translator --file broken.jsonl --file-format json": ("broken.jsonl, line 2", "is not JSON"),
    "translate translator --file short.en --file-format docs": ("--file-format docs", "xliff"),
    "translate translator --file short.en --input short.en": ("--input", "--file"),
    "translate translator --file short.en --scores": ("--scores", "--file"),
    "translate translator --file short.en --n-best 2": ("--n-best", "--file"),
    "translate translator --file short.en --split sentences": ("--split", "--file"),
    "translate translator --file short.en --memory-threshold 0.7": ("--memory-threshold", "--memory"),
    "translate translator --file short.en --memory-threshold 2 --memory short.en": ("--memory-threshold 2",),
    "translate translator --file short.en --output nowhere/x.po": ("nowhere/x.po", "cannot be written"),
    "translate translator --file short.en --report short.en": ("--report short.en: is an input",),
    "translate translator --file short.en --markup xml": ("--markup", "--file"),
    "translate translator --text x --accelerator _ --no-placeholders": ("--accelerator", "--no-placeholders"),
    "translate translator --memory short.en": ("--memory has no effect without --file",),
    "translate translator --only all": ("--only has no effect without --file",),
    "translate translator short.en": ("short.en", "--input"),
    "translate translator --input missing.en": ("missing.en",),
    "translate translator --input short.en --input short.en": ("--input is given twice", "once"),
    "classify classifier -i short.en --input short.en": ("--input is given twice", "once"),
    "translate translator --input memory.tmx": ("memory.tmx:", "XML files are not read here", "TSV"),
    "translate translator --input folder": ("folder",),
    "translate translator --input latin.txt": ("latin.txt", "1"),
    "translate translator --input short.en.gz": ("short.en.gz",),
    "translate translator --input short.en --output folder": ("--output folder: is a folder", "name of a file"),
    "translate translator --input short.en --output nowhere/x": ("nowhere/x",),
    "translate translator --beam-size 0": ("--beam-size 0", "at least 1"),
    "translate translator --beam-size 1.5": ("--beam-size 1.5", "integer"),
    "translate translator --beam-size many": ("--beam-size many", "integer"),
    "translate translator --beam-size 10000000": ("--beam-size 10000000", "at most"),
    "translate translator --beam-size": ("--beam-size", "value"),
    "translate translator --beams 3": ("--beams", "--beam-size"),
    "translate translator --num_beams 3": ("--beam-size",),
    "translate translator --lenpen 1": ("--length-penalty",),
    "translate translator --src short.en": ("--input",),
    "translate translator --tgt short.de": ("--output",),
    "translate translator --out x": ("--output",),
    "translate translator --batch_size 3": ("--batch-tokens",),
    "translate translator --batch-tokens 0": ("--batch-tokens 0", "at least 1"),
    "translate translator --n-best 0": ("--n-best 0",),
    "translate translator --n-best 7 --beam-size 2 --input short.en": ("--n-best 7 is more", "raise --beam-size to 7"),
    "translate translator --min-length -1": ("--min-length -1", "at least 0"),
    "translate translator --min-length 9 --max-length 3 --input short.en": ("--min-length 9 is above --max-length 3",),
    "translate translator --max-length 0": ("--max-length 0",),
    "translate translator --max-length-ratio -1": ("--max-length-ratio -1",),
    "translate translator --length-penalty x": ("--length-penalty x", "number"),
    "translate translator --length-penalty nan --input short.en": ("--length-penalty nan", "finite"),
    "translate translator --length-penalty 1 --length-penalty-kind none --input short.en": (
        "--length-penalty 1.0 has no effect with --length-penalty-kind none",
    ),
    "translate translator --length-penalty-kind gmnt": ("gnmt",),
    "translate translator --decoding beam": ("beam_search",),
    "translate translator --compute-type fp16": ("--compute-type fp16", "bfloat16"),
    "translate translator --device gpu --input short.en": ("--device gpu: ", "cpu, cuda"),
    "translate translator --device cuda:99 --input short.en": ("--device cuda:99: ", "not available"),
    "translate translator --device '' --input short.en": ("--device : ", "cpu, cuda"),
    "translate translator --scores --n-best 2": ("--scores", "--n-best"),
    "translate translator --scores --format jsonl": ("--scores", "--format jsonl"),
    "translate translator --scores=yes": ("--scores", "takes no value"),
    "translate translator --format json": ("--format json", "jsonl"),
    "translate translator --shortlist --input short.en": ("shortlist", "dragoman export"),
    "translate translator --split words": ("--split words", "sentences"),
    "translate translator --language de --input short.en": ("--language", "--split"),
    "translate translator --ensemble nowhere --input short.en": ("nowhere",),
    "translate translator --ensemble lm --input short.en": ("lm",),
    "translate translator --source-features missing.conllu --input short.en": ("missing.conllu",),
    "translate translator translator": ("translator",),
    # generate
    "generate": ("RUN",),
    "generate translator": ("dragoman translate translator",),
    "generate nowhere": ("nowhere",),
    "generate lm --temperature -1": ("--temperature -1", "at least 0"),
    "generate lm --temperature 1e-9": ("temperature",),
    "generate lm --temperature warm": ("--temperature warm", "number"),
    "generate lm --top-p 2": ("--top-p 2", "at most 1"),
    "generate lm --top-p 0": ("--top-p 0", "above 0"),
    "generate lm --top-k 0": ("--top-k 0",),
    "generate lm --min-p 2": ("--min-p 2",),
    "generate lm --typical-p -1": ("--typical-p -1",),
    "generate lm --repetition-penalty 0": ("--repetition-penalty 0",),
    "generate lm --no-repeat-ngram 0": ("--no-repeat-ngram 0",),
    "generate lm --seed -1": ("--seed -1",),
    "generate lm --max-new-tokens 0": ("--max-new-tokens 0",),
    "generate lm --max-length 5": ("--max-new-tokens",),
    "generate lm --num_return_sequences 3": ("--n-best",),
    "generate lm --n-best 0": ("--n-best 0",),
    "generate lm --temperature 0 --top-k 3": ("--top-k has no effect with --temperature 0", "temperature"),
    "generate lm --temperature 0 --seed 3": ("--seed", "--temperature 0"),
    "generate lm --beam-size 3 --top-k 3": ("--top-k", "--beam-size"),
    "generate lm --length-penalty 1": ("--length-penalty", "--beam-size"),
    "generate lm --prompt a --input short.en": ("--prompt", "--input"),
    "generate lm --echo --format jsonl": ("--echo", "--format jsonl"),
    "generate lm --stream --n-best 2": ("--stream",),
    "generate lm --input missing.txt": ("missing.txt",),
    "generate lm --output folder --prompt two": ("folder",),
    "generate lm --min-length 9 --max-new-tokens 3 --prompt two": (
        "--min-length 9 is above --max-new-tokens 3; raise --max-new-tokens",
    ),
    "generate lm --device tpu --prompt two": ("--device tpu: ", "cpu, cuda"),
    # classify
    "classify": ("RUN",),
    "classify translator": ("dragoman translate translator",),
    "classify nowhere": ("nowhere",),
    "classify classifier --input missing.txt": ("missing.txt",),
    "classify classifier --input latin.txt": ("latin.txt",),
    "classify classifier --format csv": ("--format csv",),
    "classify tagger --all --input short.en": ("--all",),
    "classify classifier --labels": ("--labels",),
    "classify classifier --batch-tokens x": ("--batch-tokens x",),
    "classify classifier short.en": ("short.en", "--input"),
    # answer
    "answer": ("RUN",),
    "answer answerer": ("--question",),
    "answer answerer --question q": ("--context",),
    "answer answerer --question q --context short.en --input broken.jsonl": ("--input",),
    "answer answerer --question q --context missing.txt": ("missing.txt",),
    "answer answerer --input broken.jsonl": ("broken.jsonl:1",),
    "answer answerer --input contextless.jsonl": ("contextless.jsonl:1", "context"),
    "answer answerer --input missing.jsonl": ("missing.jsonl",),
    "answer answerer --n-best 0 --input broken.jsonl": ("--n-best 0",),
    "answer answerer --max-answer-length 0 --input broken.jsonl": ("--max-answer-length 0",),
    "answer translator --question q --context short.en": ("dragoman translate translator",),
    # score
    "score": ("RUN",),
    "score translator": ("--target",),
    "score translator --target train.de": ("--source",),
    "score translator --source train.en --tgt train.de": ("--target",),
    "score translator --source train.en --target short.en --output new": ("train.en", "short.en"),
    "score translator --source train.en --target short.en": ("train.en", "short.en"),
    "score translator --source missing.en --target train.de": ("missing.en",),
    "score translator --source train.en --target missing.de": ("missing.de",),
    "score translator --perplexity --target train.de": ("dragoman translate translator",),
    "score lm --source train.en --target train.de": ("dragoman generate lm",),
    "score lm --perplexity --target empty.txt": ("empty.txt",),
    "score lm --perplexity --target running.txt --length-penalty 1": ("--length-penalty", "--perplexity"),
    "score lm --perplexity --target running.txt --overlap -1": ("--overlap -1",),
    "score lm --perplexity --target running.txt --overlap 99": ("overlap",),
    "score translator --documents line --source train.en --target train.de": ("--documents", "--perplexity"),
    "score lm --perplexity --documents page --target running.txt": ("--documents page",),
    # evaluate
    "evaluate": ("--reference",),
    "evaluate --reference train.de": ("--hypothesis",),
    "evaluate --reference train.de --hypothesis missing.de": ("missing.de",),
    "evaluate --reference missing.de --hypothesis train.de": ("missing.de",),
    "evaluate --reference train.de --hypothesis short.en": ("train.de", "short.en"),
    "evaluate --reference empty.txt --hypothesis empty.txt": ("empty.txt",),
    "evaluate --reference train.de --hypothesis empty.txt": ("empty.txt: is empty, and ", " expected"),
    "evaluate --refs train.de --hypothesis train.de": ("--reference",),
    "evaluate --reference train.de --hyp train.de": ("--hypothesis",),
    "evaluate translator --reference train.de": ("--source",),
    "evaluate translator --reference train.de --hypothesis train.de": ("--hypothesis",),
    "evaluate translator --reference train.de --source missing.en": ("missing.en",),
    "evaluate translator --reference train.de --source short.en": ("short.en",),
    "evaluate lm --reference train.de --source train.en": ("--max-new-tokens 256",),
    "evaluate nowhere --reference train.de --source train.en": ("nowhere",),
    "evaluate --reference train.de --hypothesis train.de --metric blue": ("--metric blue", "bleu"),
    "evaluate --reference train.de --hypothesis train.de --tokenize moses": ("tokenize", "13a"),
    "evaluate --reference train.de --hypothesis train.de --metric chrf --tokenize 13a": ("--tokenize", "bleu"),
    "evaluate --reference train.de --hypothesis train.de --beam-size 3": ("--beam-size", "--hypothesis"),
    "evaluate --reference train.de --hypothesis train.de --perturb typo": ("--perturb",),
    "evaluate translator --reference train.de --source train.en --perturb noise": ("--perturb noise",),
    "evaluate translator --reference train.de --source train.en --beam-size 0": ("--beam-size 0",),
    "evaluate train.de --reference train.de --source train.en": ("train.de", "not a run folder"),
    # compare
    "compare": ("SYSTEMS",),
    "compare translator nowhere": ("nowhere",),
    "compare translator translator": ("translator", "twice"),
    "compare train.de train.en": ("train.de", "--reference"),
    "compare translator ./translator/": ("./translator/: is translator by another path", "once"),
    "compare train.de ./train.de --reference train.de": ("./train.de: is train.de by another path",),
    "compare translator --metric chrf": ("--reference", "Leave them out, or give"),
    "compare translator lm --reference train.de": (
        "translator: is a folder",
        "Leave --reference out, or",
        "dragoman translate translator --input SOURCE --output FILE",
    ),
    "compare train.de short.en --reference train.de": ("short.en",),
    "compare train.de missing.de --reference train.de": ("missing.de",),
    "compare train.de train.en --reference train.de --resamples 1": ("--resamples 1", "at least 40"),
    "compare train.de train.en --reference train.de --trials 0": ("--trials 0",),
    "compare train.de train.en --reference train.de --seed -1": ("--seed -1",),
    "compare translator typing": ("model.d_model",),
    "compare translator tokenless": ("tokenizer.json",),
    # analyse
    "analyse": ("SYSTEMS",),
    "analyse train.de --source train.en": ("--reference",),
    "analyse train.de --source train.en --reference train.de": ("--out",),
    "analyse train.de --source train.en --reference short.en --out r.html": ("short.en",),
    "analyse missing.de --source train.en --reference train.de --out r.html": ("missing.de",),
    "analyse train.de --source train.en --reference train.de --out folder": ("folder",),
    "analyse train.de --source train.en --reference train.de --out nowhere/r.html": ("nowhere",),
    "analyse train.de --source train.en --reference train.de --out r.html --worst -1": ("--worst -1",),
    "analyse train.de --source train.en --reference train.de --out r.html --beam-size 3": ("--beam-size",),
    "analyse lm --source train.en --reference train.de --out r.html": ("dragoman generate lm",),
    # inspect
    "inspect": ("MODELS",),
    "inspect translator": ("--text",),
    "inspect translator --text two": ("--out",),
    "inspect nowhere --text two --out r.html": ("nowhere",),
    "inspect translator --text two --out folder": ("folder",),
    "inspect translator --text two --out nowhere/r.html": ("nowhere",),
    "inspect translator --text two --out r.html --target a --target b": ("target",),
    "inspect translator --text two --out r.html --question q": ("question",),
    "inspect answerer --text two --out r.html": ("question",),
    "inspect translator --text two --out r.html --max-new-tokens 0": ("--max-new-tokens 0",),
    "inspect translator --text two --out r.html --beam-size 0": ("--beam-size 0",),
    "inspect translator --text two --png notes.txt": ("notes.txt",),
    "inspect damaged --text two --out r.html": ("model.safetensors",),
    # bench
    "bench": ("RUN",),
    "bench nowhere": ("nowhere",),
    "bench classifier": ("classifier",),
    "bench translator --batch 0": ("--batch 0",),
    "bench translator --beam-size 0": ("--beam-size 0",),
    "bench translator --tokens 0": ("--tokens 0",),
    "bench translator --rounds 0": ("--rounds 0",),
    "bench translator --source missing.en": ("missing.en",),
    "bench translator --source short.en --batch 8 --beam 1 --rounds 1": ("batch",),
    "bench translator --source short.en --source-tokens 3": ("--source-tokens", "--source"),
    "bench translator --batch-size 3": ("--batch",),
    # info
    "info": ("RUN",),
    "info nowhere": ("nowhere",),
    "info folder": ("folder",),
    "info yaml": ("config.yaml",),
    "info typing": ("model.d_model",),
    "info tokenless": ("tokenizer.json",),
    "info translator lm": ("lm",),
    "info translator --json=3": ("--json",),
    # prune
    "prune translator --source train.en --target train.de": ("--output-dir",),
    "prune translator --source train.en --target train.de --out translator": ("translator", "exists"),
    "prune translator --source train.en --target train.de --out new --heads 2": ("--heads 2", "at most 1"),
    "prune translator --source train.en --target train.de --out new --heads -1": ("--heads -1", "at least 0"),
    "prune translator --source train.en --target short.en --out new": ("short.en",),
    "prune translator --source empty.txt --target empty.txt --out new": ("empty.txt",),
    "prune lm --source train.en --target train.de --out new": ("dragoman generate lm",),
    "prune translator --source train.en --target train.de --out new --pairs 0": ("--pairs 0",),
    # calibrate
    "calibrate translator": ("source and reference", "pairs"),
    "calibrate translator --source train.en": ("source and reference", "pairs"),
    "calibrate translator --source missing.en --reference train.de": ("missing.en",),
    "calibrate translator --source short.en --reference short.en": ("100",),
    "calibrate translator --source train.en --reference train.de --beam-size 0": ("--beam-size 0",),
    "calibrate lm --source train.en --reference train.de": ("dragoman generate lm",),
    "calibrate nowhere --source train.en --reference train.de": ("nowhere",),
    # export
    "import folder": ("--output-dir",),
    "import nowhere --out new": ("nowhere", "does not exist"),
    "import folder --out new": ("folder", "--format"),
    "import folder --out translator": ("translator", "exists"),
    "import folder --out new --format nothing": ("nothing", "does not exist"),
    "export translator --out new --format nothing": ("nothing", "does not exist"),
    "export translator": ("--output-dir",),
    "export nowhere --out new": ("nowhere",),
    "export unfinished --out new": ("--resume unfinished",),
    "export translator --out folder": ("folder", "exists"),
    "export translator --out new --compute-type fp16": ("--compute-type fp16",),
    "export translator --out new --source train.en": ("--source", "--shortlist"),
    "export translator --out new --shortlist --source train.en": ("--target",),
    "export translator --out new --shortlist --source missing.en --target missing.de": ("missing.en",),
    "export translator --out new --shortlist --frequent -1 --source train.en --target train.de": ("frequent",),
    "export translator --out new --quantization int8": ("--compute-type",),
    "export lm --out new --shortlist --source train.en --target train.de": ("shortlist",),
    # distill
    "distill translator --source train.en": ("--output-dir",),
    "distill translator --out new": ("--source",),
    "distill translator --source missing.en --out new": ("missing.en",),
    "distill translator --source train.en --out folder": ("folder", "exists"),
    "distill lm --source train.en --out new": ("dragoman generate lm",),
    "distill translator --source train.en --out new --beam-size 0": ("--beam-size 0",),
    "distill translator --source empty.txt --out new": ("empty.txt",),
    # backtranslate
    "backtranslate translator --out new": ("--monolingual",),
    "backtranslate translator --monolingual missing.de --out new": ("missing.de",),
    "backtranslate translator --monolingual train.de --out folder": ("folder", "exists"),
    "backtranslate translator --monolingual train.de --out new --temperature 2": ("--temperature", "--method"),
    "backtranslate translator --monolingual train.de --out new --method sampling --beam-size 2": (
        "--beam-size",
        "--method",
    ),
    "backtranslate translator --monolingual train.de --out new --method sampling --temperature -1": (
        "--temperature -1",
    ),
    "backtranslate lm --monolingual train.de --out new": ("dragoman generate lm",),
    "backtranslate translator --mono train.de --out new": ("--monolingual",),
    # reproduce
    "reproduce": ("RECIPE",),
    "reproduce recipe.yaml": ("--data",),
    "reproduce nowhere.yaml --data .": ("nowhere.yaml",),
    "reproduce unexpected.yaml --data .": ("expected",),
    "reproduce recipe.yaml --data .": ("expected",),
    "reproduce unexpected.yaml --data . --seed x": ("--seed x",),
    # demo
    "demo --to xx": ("xx",),
    "demo --to fr --out translator": ("translator",),
    "demo --to fr --set training.sed=3 --out new": ("training.sed",),
    "demo --lang fr": ("--to",),
    "demo --to fr --out new --set training": ("--set training", "KEY=VALUE"),
    # plan
    "plan": ("--source",),
    "plan nowhere.yaml": ("nowhere.yaml",),
    "plan --source train.en": ("--target",),
    "plan --source missing.en --target missing.de": ("missing.en",),
    "plan --source train.en --target train.de --memory much": ("--memory much",),
    "plan --source train.en --target train.de --devices 0": ("--devices 0",),
    "plan --source train.en --target train.de --price -1": ("--price -1",),
    "plan --source train.en --target train.de --set training.sed=1": ("training.sed", "training.seed"),
    "plan typo.yaml": ("training.sed",),
    # train
    "train": ("--output-dir",),
    "train --out new": ("--source",),
    "train --source train.en --out new": ("--target",),
    "train --target train.de --out new": ("--source",),
    "train --source train.en --target short.en --out new": ("short.en",),
    "train --source missing.en --target missing.de --out new": ("missing.en",),
    "train --source empty.txt --target empty.txt --out new": ("empty.txt",),
    "train --source latin.txt --target latin.txt --out new": ("latin.txt",),
    "train --source train.en --target train.de --out translator": ("translator", "exists"),
    "train --source train.en --target train.de --out folder": ("folder", "exists"),
    "train --source train.en --target train.de --out notes.txt": ("notes.txt", "exists"),
    "train --source train.en --target train.de --text running.txt --out new": ("--text",),
    "train --valid-text running.txt --out new": ("--text",),
    "train --source train.en --target train.de --valid-source train.en --out new": ("--valid-target",),
    "train --prepared folder --out new": ("folder",),
    "train --prepared folder --source train.en --out new": ("--prepared",),
    "train --source missing.en --target missing.de --out new --set training.sed=1": ("training.sed", "training.seed"),
    "train --source missing.en --target missing.de --out new --set sed=1": ("training.seed",),
    "train --source missing.en --target missing.de --out new --set training.seed=x": ("training.seed", "integer"),
    "train --source missing.en --target missing.de --out new --set training.seed=-1": ("training.seed", "at least 0"),
    "train --source missing.en --target missing.de --out new --set training": ("KEY=VALUE",),
    "train --source missing.en --target missing.de --out new --set training.seed=[": ("YAML",),
    "train --source missing.en --target missing.de --out new --set preset=huge": ("huge",),
    "train --source missing.en --target missing.de --out new --set model.num_heads=5": ("num_heads",),
    "train --source missing.en --target missing.de --out new --set model.attention.rank=3": ("rank",),
    "train --source missing.en --target missing.de --out new --set training.schedule.kind=cosin": ("cosine",),
    "train --source missing.en --target missing.de --out new --set training.max_steps=0": ("max_steps", "at least 1"),
    "train --source missing.en --target missing.de --out new --set task=tagging": ("task",),
    "train --source missing.en --target missing.de --out new --device gpu": ("--device gpu: ", "cpu, cuda"),
    "train --source missing.en --target missing.de --out new --init-from nowhere": ("nowhere",),
    "train --source missing.en --target missing.de --out new --init-from lm": ("lm",),
    "train --text missing.txt --out new --set training.sed=1": ("training.sed",),
    "train --text missing.txt --out new --set metrics=[]": ("metrics",),
    "train --text missing.txt --out new --init-from lm": ("missing.txt",),
    "train typo.yaml --out new": ("typo.yaml", "training.sed"),
    "train list.yaml --out new": ("list.yaml", "mapping"),
    "train broken.yaml --out new": ("broken.yaml", "YAML"),
    "train twice.yaml --out new": ("twice.yaml", "twice"),
    "train task.yaml --out new": ("task", "translation"),
    "train missing.yaml --out new": ("missing.en",),
    "train nowhere.yaml --out new": ("nowhere.yaml",),
    "train train.en --out new": ("train.en",),
    "train train.en train.de --out new": ("train.de",),
    "train --resume nowhere": ("nowhere",),
    "train --resume translator": ("translator", "checkpoint", "--init-from"),
    "train --resume folder": ("folder",),
    "train --resume unfinished --out new": ("--resume",),
    "train --resume unfinished --set training.seed=1": ("--resume",),
    "train --source train.en --target train.de --data . --out new": ("--data",),
    "train --source train.en --target train.de --lr 3 --out new": ("learning-rate",),
    "train --source train.en --target train.de --max-update 3 --out new": ("max-steps",),
    "train --src train.en --tgt train.de --out new": ("--source",),
    "train --train_file train.en --out new": ("--",),
    "train --source train.en --target train.de --save-dir new": ("--output-dir",),
    "train --source train.en --target train.de --out notes.txt/x": ("notes.txt",),
    # data
    "data glossary": ("GLOSSARY",),
    "data glossary missing.tsv --source train.en --target train.de --output new.tsv": ("missing.tsv",),
    "data glossary train.en --source train.en --target train.de --output new.tsv": ("train.en", ".tsv"),
    "data prepar": ("dragoman data prepare",),
    "data prepare": ("--output-dir",),
    "data prepare --out new": ("--source",),
    "data prepare --source train.en --out new": ("--target",),
    "data prepare --source missing.en --target missing.de --out new": ("missing.en",),
    "data prepare --source empty.txt --target empty.txt --out new": ("empty.txt",),
    "data prepare --source train.en --target short.en --out new": ("short.en",),
    "data prepare --source train.en --target train.de --out folder": ("folder",),
    "data prepare --source missing.en --target missing.de --out new --set training.sed=1": ("training.sed",),
    "data prepare --source train.en --target train.de --out new --workers 3": ("--workers", "--engine"),
    "data prepare --source train.en --target train.de --out new --engine spark": ("--engine spark", "ray"),
    "data prepare --source train.en --target train.de --out new --tokenizer missing.json": ("missing.json",),
    "data prepare --source train.en --target train.de --out new --tokenizer tokenizer.json": ("tokenizer.json",),
    "data prepare --source train.en --target train.de --out new --shard-pairs 0": ("--shard-pairs 0",),
}
LIBRARY_LANGUAGE = ("Value error", "Input should", "function-", "Traceback", "pydantic", "errno", "NoneType")


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """Return a folder of corpora and of runs, some of them damaged."""
    folder = tmp_path_factory.mktemp("misuse")
    write_texts(folder)
    names = {
        "classification": "classifier",
        "tagging": "tagger",
        "question_answering": "answerer",
        "masked_lm": "encoder",
    }
    for task, name in names.items():
        dragoman.train(config_of(task, folder), output_dir=folder / name, overrides={"training.max_steps": 1})
    finished_run(folder / "translator")
    finished_language_model(folder / "lm")
    for name in ("unfinished", "damaged", "tokenless", "typing", "yaml", "newer"):
        shutil.copytree(folder / "translator", folder / name)
    (folder / "unfinished" / "model.safetensors").unlink()
    weights = folder / "damaged" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    (folder / "tokenless" / "tokenizer.json").unlink()
    config = (folder / "translator" / "config.yaml").read_text(encoding="utf-8")
    (folder / "typing" / "config.yaml").write_text(config.replace("d_model: 12", "d_model: twelve"), encoding="utf-8")
    (folder / "yaml" / "config.yaml").write_text("model: [1, 2", encoding="utf-8")
    (folder / "newer" / "config.yaml").write_text(config.replace("format_version: 1", "format_version: 9"))
    (folder / "with space").mkdir()
    shutil.copytree(folder / "unfinished", folder / "with space" / "run")
    _write_files(folder)
    return folder


def _write_files(folder: Path) -> None:
    texts = {
        "short.en": "two dogs play .\n",
        "empty.txt": "",
        "blank.txt": "\n\n",
        "notes.txt": "mine\n",
        "broken.jsonl": "{\n",
        "contextless.jsonl": '{"question": "after two"}\n',
        "unkind.jsonl": '["two", {"forms": "a", "kind": "some"}]\n',
        "typo.yaml": "training: {sed: 1}\ndata: {train: {kind: files, source: missing.en, target: missing.de}}\n",
        "list.yaml": "- 1\n",
        "broken.yaml": "training: {seed: 1\n",
        "twice.yaml": "preset: tiny\npreset: nano\n",
        "task.yaml": "task: translate\n",
        "plain.yaml": "task: classification\ndata: {train: {kind: lines, path: labeled.txt}}\n",
        "missing.yaml": "data: {train: {kind: files, source: missing.en, target: missing.de}}\n",
        "recipe.yaml": "expected: {test: 3}\n",
        "unexpected.yaml": "preset: tiny\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "latin.txt").write_bytes(b"caf\xe9\n")
    (folder / "short.en.gz").write_bytes(b"not gzip")
    (folder / "folder").mkdir()
    (folder / "folder" / "kept").write_text("kept\n", encoding="utf-8")
    (folder / "tokenizer.json").write_text(json.dumps({"model": 3}), encoding="utf-8")


@pytest.mark.parametrize("command", CASES)
def test_misuse_gives_one_message_and_loses_nothing(command, place, monkeypatch, capfd):
    monkeypatch.chdir(place)
    monkeypatch.setenv("DRAGOMAN_CACHE", str(place / "cache"))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    before = hashes(place)
    code = main.run(shlex.split(command), debug=False)
    written = capfd.readouterr()
    after = hashes(place)
    for name in after.keys() - before.keys():  # so that a failure does not spoil the cases after it
        if (place / name).is_dir():
            shutil.rmtree(place / name, ignore_errors=True)
        else:
            (place / name).unlink(missing_ok=True)
    assert [name for name in before | after if before.get(name) != after.get(name)] == []
    assert (code, written.out) == (2, ""), written
    message = written.err[written.err.index("dragoman: ") :].rstrip("\n")
    assert message.count("dragoman: ") == 1 or "dragoman: dragoman" in message
    assert len(message.splitlines()) <= 3
    assert message.endswith((".", "?", ")", "--help", "]", "RUN")) or ": " in message
    assert not any(words in message for words in LIBRARY_LANGUAGE)
    missing = [words for words in CASES[command] if words not in message]
    assert not missing, message


@pytest.mark.parametrize(
    "command",
    [
        "evaluate translator --reference missing.de --source train.en --metric rouge1",
        "train --source train.en --target train.de --out new --set metrics=[{kind: rouge}] --set preset=nano",
    ],
)
def test_missing_library_is_reported_before_the_work(command, place, monkeypatch, capfd):
    monkeypatch.chdir(place)
    monkeypatch.setenv("DRAGOMAN_CACHE", str(place / "cache"))
    monkeypatch.setitem(sys.modules, "rouge_score.rouge_scorer", None)
    words = shlex.split(command.replace("[{kind: rouge}]", "'[{kind: rouge}]'"))
    assert main.run(words, debug=False) == 2
    written = capfd.readouterr().err
    assert "pip install 'dragoman[rouge]'" in written
    assert "step 1" not in written
    assert not (place / "new").exists()


@pytest.mark.parametrize(
    "command", ["train --source missing.en --target missing.de --out new", "train --resume unfinished"]
)
def test_missing_tensorboard_is_reported_before_the_corpus_is_read(command, place, monkeypatch, capfd):
    monkeypatch.chdir(place)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    before = hashes(place)
    assert main.run([*shlex.split(command), "--tensorboard"], debug=False) == 2
    assert "pip install 'dragoman[tensorboard]'" in capfd.readouterr().err
    assert hashes(place) == before


@pytest.mark.parametrize("command", ["evaluate --refs x", "info folder", "train typo.yaml --out new", "predict x"])
def test_misuse_of_a_process(command, place):
    """A process prints the same messages on standard error and ends with the same exit code."""
    before = hashes(place)
    answer = dragoman_process(*shlex.split(command), cwd=place)
    assert (answer.returncode, answer.stdout) == (2, ""), answer.stderr
    [line] = answer.stderr.splitlines()
    assert line.startswith("dragoman: ")
    assert hashes(place) == before


def test_table_covers_every_verb():
    assert {shlex.split(command)[0] for command in CASES if command} >= set(main.SUMMARIES)
    assert len(CASES) >= 200


@pytest.mark.parametrize(
    "verb", ["translate translator --text", "generate writer --prompt", "inspect translator --out x.html --text"]
)
def test_text_that_is_not_utf8_is_refused(verb, capsys):
    assert main.run([*verb.split(), b"caf\xe9".decode(errors="surrogateescape")], debug=False) == 2
    option = verb.split()[-1]
    assert f"dragoman: {option}: text 1 is not UTF-8 (character 4)" in capsys.readouterr().err
