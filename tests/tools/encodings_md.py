#!/usr/bin/env python3
"""encodings_md.py POSENC: the page of all encodings, from the descriptors that the command POSENC prints."""
import json
import subprocess
import sys

FAMILIES = {"absolute": "Absolute positions: of tokens, of moments, of rows of a table", "grid": "Grids: images, video, boxes",
            "rotary": "Rotary positions", "relative": "Relative positions: biases and indices", "graph": "Graphs and trees",
            "use": "Operations on encodings"}


def number(v):
    return f"{v:.0f}" if v == int(v) and abs(v) < 1e16 else f"{v:g}"


def cell(text):
    return text.replace("|", "\\|").replace("\n", " ")


def parameter(p):
    if p["required"]:
        default = "required"
    elif "default" in p:
        d = p["default"]
        default = str(d).lower() if isinstance(d, bool) else number(d) if isinstance(d, (int, float)) else f"{d}"
    else:
        default = "derived" if p.get("derived") else ""
    allowed = ", ".join(p["words"]) if "words" in p else f"{number(p['min'])} .. {number(p['max'])}" if "min" in p else ""
    when = "".join(f" ({name}: {', '.join(words)})" for name, words in p.get("when", {}).items())
    return f"| `{p['name']}` | {p['type']} | {default} | {cell(allowed)} | {cell(p['doc'])}{cell(when)} |"


def anchor(name):
    return f"[{name}](#{name})"


def encoding(d):
    own = [p for p in d["parameters"] if p["name"] not in ("dtype", "rev")]
    query = d["example"].replace(" ", "&")
    graph = d["input"] == "graph"
    lines = [f"### {d['name']}", "", f"{d['title'][0].upper()}{d['title'][1:]}. Revision {d['revision']}. Source: {d['source']}.", "",
             "```", *d["formula"].splitlines(), "```", ""]
    if own:
        lines += ["| parameter | type | default | range or words | meaning |", "| --- | --- | --- | --- | --- |", *map(parameter, own), ""]
    lines += ["| output | shape | dtype | meaning |", "| --- | --- | --- | --- |",
              *(f"| `{o['name']}` | {cell(o['shape'])} | {o['dtype']} | {cell(o['doc'])} |" for o in d["outputs"]), ""]
    command = f"posenc {d['name']} {query.replace('&', ' ')}".rstrip() + (" --graph graph.json" if graph else "")
    rest = f"/v1/encodings/{d['name']}.npz?{query}".rstrip("?")
    lines += [f"Example: `{command}`, or `{rest}`" + (" with the body `{\"graph\": GRAPH}`" if graph else ""), ""]
    return lines


def main():
    posenc = sys.argv[1]
    names = [line.split()[0] for line in subprocess.run([posenc, "list"], capture_output=True, text=True, check=True).stdout.splitlines()]
    all_of = [json.loads(subprocess.run([posenc, "describe", n], capture_output=True, text=True, check=True).stdout) for n in names]
    common = [p for p in all_of[0]["parameters"] if p["name"] in ("dtype", "rev")]
    page = ["# Encodings", "", "Written by `make docs` from the descriptors; not edited by hand.", "",
            "Every encoding also has:", "", "| parameter | type | default | range or words | meaning |", "| --- | --- | --- | --- | --- |",
            *map(parameter, common), "",
            "Containers: `csv` and `json` print the fewest digits that name the value in its own `dtype`: 0.307 is a bfloat16. `npy` and `npz` have",
            "no bfloat16 and hold the same values as float32; `safetensors` and `bin` hold the two bytes. An `npz` also has the member",
            "`__posenc__.json`, bytes that say where it came from; `numpy.load(f)[\"cos\"]` does not read it.", "",
            "Below, graph.json is this graph, which `posenc example-graph -o graph.json` writes; over REST it is the member `graph` of a POST",
            "(`Content-Type: application/json`), here written GRAPH, and its parameters stand in the query or beside it:", "",
            "```json", json.dumps(next(d["example_graph"] for d in all_of if "example_graph" in d)), "```", ""]
    for family, title in FAMILIES.items():
        members = [d for d in all_of if d["family"] == family]
        if members:
            page += [f"- {title}: " + ", ".join(anchor(d["name"]) for d in members)]
    page += [""]
    for family, title in FAMILIES.items():
        members = [d for d in all_of if d["family"] == family]
        if members:
            page += [f"## {title}", ""]
        for d in members:
            page += encoding(d)
    unknown = {d["family"] for d in all_of} - set(FAMILIES)
    if unknown:
        sys.exit(f"encodings_md: no title for the families {sorted(unknown)}")
    print("\n".join(page).rstrip())


if __name__ == "__main__":
    main()
