#!/usr/bin/python3
"""analysis_md.py POSENC FOLDER: the questions that users of positional encodings ask, worked through by `posenc analyze`.

Prints the page; writes its pictures to FOLDER/pictures. Each section is a question, a command, what came out and the picture."""
import json
import shlex
import subprocess
import sys
from pathlib import Path

POSENC, FOLDER = sys.argv[1], Path(sys.argv[2])
SCRATCH = Path("build/docs")
UNTRAINED = ("python3 -c \"import numpy; numpy.save('build/docs/untrained.npy', "
             "numpy.random.default_rng(1).normal(0, 0.02, (512, 64)))\"")
ZEROS = "python3 -c \"import numpy; numpy.save('build/docs/zeros.npy', numpy.zeros((64, 96)))\""
SINUSOID = "posenc sinusoidal embedding_dim=32 num_positions=64 dtype=float64 -o build/docs/sinusoid.npy"


def run(command, *more):
    return subprocess.run([POSENC, *shlex.split(command)[1:], *more], check=True, capture_output=True).stdout


def short(v):
    if isinstance(v, bool) or v is None or isinstance(v, (str, int)):
        return str(v).lower() if isinstance(v, bool) else "none" if v is None else str(v)
    if isinstance(v, float):
        return f"{v:.4g}"
    if len(v) > 9:
        return ", ".join(short(x) for x in v[:8]) + f", ... ({len(v)})"
    return ", ".join(short(x) for x in v)


def prepare(command):
    words = shlex.split(command)
    subprocess.run([{"posenc": POSENC, "python3": sys.executable}[words[0]], *words[1:]], check=True)


def section(question, words, command, shown, before=()):
    """shown: {what: fields}; before: commands that make the input"""
    for c in before:
        prepare(c)
    name = section.count = getattr(section, "count", 0) + 1
    what = ",".join(shown)
    command = f"posenc analyze {command} what={what}"
    a = json.loads(run(command, "--format", "json"))["analysis"]
    picture = f"pictures/{name:02}.svg"
    (FOLDER / picture).write_bytes(run(command, "--format", "svg"))
    lines = "\n".join([*before, command])
    print(f"\n## {question}\n\n{words}\n\n```\n{lines}\n```\n\n| field | value | unit |\n| --- | --- | --- |")
    for w, fields in shown.items():
        for f in fields:
            print(f"| `{w}.{f}` | {short(a[w][f])} | {a[w]['units'].get(f, '')} |")
    print(f"\n![{question}]({picture})")


def main():
    (FOLDER / "pictures").mkdir(exist_ok=True)
    SCRATCH.mkdir(parents=True, exist_ok=True)
    print("""# What an encoding does

`posenc analyze NAME [parameters]` looks at the table of an encoding, `posenc analyze FILE.npy` at any other; `what=` chooses what
to look at, and `-o FILE.svg` (or .png) draws it. The same over REST: `GET /v1/encodings/NAME/analysis.json?...`, `POST /v1/analysis.json`
with a table as the body; over gRPC: `Analyze`. Fields, units and definitions: at the end, and `posenc analyze --help`.

This page is written by `make docs-analysis`; it is not edited by hand. Every command runs in the top folder of the tree.""")

    section("Why does attention need positions at all?",
            "A head of self-attention with random weights sees 64 random tokens, then the same tokens in another order. Without "
            "positions the output is the same rows in that order, up to rounding; with them it is not.",
            "sinusoidal embedding_dim=64 num_positions=64", {"attention_probe": ["tokens", "error_without", "error_with"]})
    section("Which frequency has each dimension; what is local, what is global?",
            "Wavelengths run from 2 pi to nearly 2 pi times the base. Short ones tell neighbours apart, long ones the beginning of a "
            "text from its end.",
            "sinusoidal embedding_dim=64 num_positions=512",
            {"frequencies": ["shortest_wavelength", "longest_wavelength", "unfinished", "wavelength", "periods_in_training"]})
    section("Why does the sinusoid express relative positions?",
            "The row at p + k is a rotation M(k) of the row at p, the same for all p: `posenc relative_shift embedding_dim=64 k=3` is that "
            "matrix. Its error on the table is rounding, and least squares find it, too.",
            "sinusoidal embedding_dim=64 num_positions=512", {"shift": ["offset", "exact_error", "r2"]})
    section("Does a learned table hold relative positions?",
            "The same question to a table that was drawn at random, as a learned one is before training: no map from row p to row p + k "
            "does better on rows it has not seen than their mean (R2 of 0 or less). A trained table lies between this and the sinusoid: "
            "save yours as .npy and ask.",
            "build/docs/untrained.npy", {"shift": ["offset", "r2_fit", "r2"], "similarity": ["self_dot", "variation", "monotone_to"]}, [UNTRAINED])
    section("Can it tell before from after?",
            "Not by the dot product of two rows, which is the same for +k and -k. A linear map can: the one for +k, taken for -k, misses "
            "by the size of the rows.",
            "sinusoidal embedding_dim=64 num_positions=512",
            {"direction": ["offset", "dot_difference", "map_difference", "error_right", "error_wrong"]})
    section("What if the text is longer than the table (512 to 1024)?",
            "`learned_extend` stretches a table by interpolation, repeats it, or goes on with sinusoids. Stretched, neighbours move nearer: "
            "the distance from a row to the next halves (and again at both ends, where interpolation stops), and what the model learned of distance 1 is now at distance 2.",
            "learned_extend method=linear new_length=128 --input table=build/docs/sinusoid.npy",
            {"resolution": ["group_first", "group_width", "equal_neighbours"], "uniqueness": ["distance", "relative", "equal_bfloat16"]}, [SINUSOID])
    section("Add or concatenate? Does adding pollute the words?",
            "Adding costs the embeddings only the dimensions that the table uses. Random embeddings have no more of their energy there than "
            "chance gives; trained ones are yours to ask about, with `--input embeddings=FILE.npy`.",
            "sinusoidal embedding_dim=64 num_positions=512 --input embeddings=build/docs/untrained.npy",
            {"subspace": ["dims_90", "dims_99", "dims_99_9", "embeddings_inside", "by_chance"]}, [UNTRAINED])
    section("The norm grows with the width: does it drown the embedding?",
            "Every row has the norm sqrt(channels / 2); embeddings drawn with a standard deviation of 0.02 are 35 times smaller at any "
            "width. `combine` with `scale` or `match_rms` makes them alike; models that multiply embeddings by sqrt(channels) do so for this.",
            "sinusoidal embedding_dim=512 num_positions=256 embedding_std=0.02",
            {"norms": ["mean", "expected", "rms", "ratio_to_embeddings", "matching_scale"]})
    section("An encoding narrower than the model?",
            "`combine` refuses it unless told: `zero_pad=true`, or a `projection`. Padded with zeros, the encoding uses the channels it had: "
            "the rank stays.",
            "combine zero_pad=true --input embedding=build/docs/zeros.npy --input encoding=build/docs/sinusoid.npy",
            {"subspace": ["rank", "dims_99"], "norms": ["mean", "rms"]}, [SINUSOID, ZEROS])
    section("Sentence, paragraph and document levels?",
            "`hierarchical` adds a table for each level. Here 32 tokens in four sentences of 8: similarity falls within a "
            "sentence and is back at the same place of the next one. Added with equal weights and bases, levels can stand in for each "
            "other: some rows are equal (token 1 of the first sentence, token 0 of the second). `level_weights`, or "
            "`combine=concat`, keeps them apart.",
            "hierarchical level_dims=16,16 level_encodings=sinusoidal,sinusoidal "
            "token_level_ids=[[" + ",".join(str(i) for i in range(32)) + "],[" + ",".join(str(i // 8) for i in range(32)) + "]]",
            {"similarity": ["variation", "monotone_to"], "uniqueness": ["distance", "equal"]})
    section("Why 10000, and what does another base do?",
            "A small base spends its pairs on fast waves: rows far apart become unlike sooner. A large one leaves pairs that never finish a "
            "period in training. With 32 pairs no two rows within 4096 are as alike as neighbours are, with any of these bases: it is "
            "not repetition that limits the length.",
            "sinusoidal embedding_dim=64 num_positions=512 train_length=512 test_length=4096",
            {"base": ["base", "longest_wavelength", "covers", "unfinished", "first_repeat", "smallest_unique_base"]})
    section("Why does it fail on long texts?",
            "Pairs that finish no period within the training length show values beyond it that the model has never seen. Llama 3.1 divides "
            "their frequencies by 8, keeps the fast ones and mixes between.",
            "rope preset=llama-3.1-8b num_positions=512 train_length=8192 test_length=131072",
            {"frequencies": ["unfinished", "longest_wavelength", "rule"]})
    section("How does attention fall with distance? Rotary",
            "The expected score of a query and a key that are all ones, and Su et al.'s bound.",
            "rope head_dim=64 num_positions=1024", {"decay": ["distance", "curve", "bound"]})
    section("How does attention fall with distance? Biases",
            "Each head of ALiBi reaches twice as far as the one before.",
            "alibi num_heads=8 seq_length=512 form=causal_relative", {"decay": ["head", "reaches_minus_1", "reaches_minus_10"]})
    section("Random fixed encodings?",
            "Seeded random frequencies, returned with the table: rows are alike by distance as a Gaussian of it, and no two repeat.",
            "random_sinusoidal m=64 num_positions=256 sigma=0.05 seed=1", {"similarity": ["variation", "monotone_to"], "uniqueness": ["distance", "equal_bfloat16"]})
    section("Audio, time series, irregular times?",
            "`continuous_sinusoidal` takes moments with an origin and a unit. Evenly spaced moments of half a unit: all frequencies halve.",
            "continuous_sinusoidal embedding_dim=32 timestamps=" + ",".join(f"{i / 2:g}" for i in range(64)),
            {"frequencies": ["shortest_wavelength", "longest_wavelength", "unfinished"]})
    section("Trees and graphs?",
            "Eigenvectors of a graph's Laplacian: eigenvalues that are equal leave their vectors undetermined (orange), and "
            "the last ones live on a few nodes.",
            "laplacian k=20 --graph tests/golden/graph/graphs/karate.edges.npy --num-nodes 34",
            {"spectrum": ["components", "undetermined", "eigenvalue", "participation"]})

    about = json.loads(run("posenc describe analysis"))
    print("\n# Fields\n\nA field that has no value is null. Kinds of tables: rows of channels, rotary (cosines and sines), bias, spectrum.")
    for w in about["what"]:
        lines = w["definition"].split("\n")
        print(f"\n## {w['name']}\n\n{w['title'][0].upper()}{w['title'][1:]}. Of: {', '.join(w['applies_to'])}"
              f"{', where rows are positions in order' if w['ordered'] else ''}.\n\n```\n" + "\n".join(lines) + "\n```\n\n"
              "| field | shape | unit | meaning |\n| --- | --- | --- | --- |")
        for f in w["fields"]:
            meaning = f["doc"] + (f" ({', '.join(f['words'])})" if "words" in f else "")
            print(f"| `{f['name']}` | {'[' + ', '.join(f['shape']) + ']' if f['shape'] else ''} | {f['unit']} | {meaning.replace('|', chr(92) + '|')} |")


if __name__ == "__main__":
    main()
