#!/usr/bin/env python3
"""message.py NAME: the protobuf message of an encoding, written from its table (`posenc describe NAME` on standard input).

Fields are numbered in the order of the rows: right for a new message, a draft for one that is published already."""
import json
import sys


def camel(name):
    return "".join(w.capitalize() for w in name.split("_"))


def bound(v):
    return f"{v:.0f}" if abs(v) < 1e7 and v == int(v) else f"{v:g}"


def note(p):
    parts = [p["doc"]]
    if "min" in p:
        parts.append(f"{bound(p['min'])} .. {bound(p['max'])}")
    if p["required"]:
        parts.append("required")
    elif "default" in p:
        d = p["default"]
        d = str(d).lower() if isinstance(d, bool) else word(d) if p["type"] == "enum" else bound(d) if isinstance(d, (int, float)) else d
        parts.append(f"default: {d}")
    else:
        parts.append("default: absent")
    return "; ".join(parts)


def word(w):
    return w.upper().replace("-", "_").replace(".", "_")


def main():
    d = json.load(sys.stdin)
    own = [p for p in d["parameters"] if p["name"] not in ("dtype", "rev")]
    out = [f"// {d['title'][0].upper()}{d['title'][1:]}. Outputs: " + ", ".join(f"{o['name']} {o['shape']}" for o in d["outputs"]) + ".",
           f"message {camel(d['name'])} {{"]
    for p in own:
        if p["type"] in ("enum", "words"):
            out += [f"  message {enum(d, p)} {{", "    enum Word {"]
            out += [f"      {word(w)} = {i};" for i, w in enumerate(p["words"])]
            out += ["    }", "  }"]
    kinds = {"int": "optional int64", "real": "optional double", "bool": "optional bool", "text": "optional string",
             "tensor": "optional TensorInput", "reals": "repeated double"}
    for i, p in enumerate(own, 1):
        kind = f"optional {enum(d, p)}.Word" if p["type"] == "enum" else f"repeated {enum(d, p)}.Word" if p["type"] == "words" else kinds[p["type"]]
        packed = " [packed = true]" if p["type"] in ("reals", "words") else ""
        text = f"  {kind} {p['name']} = {i}{packed};"
        out.append(f"  // {note(p)}\n{text}" if len(text) + len(note(p)) > 118 else f"{text}  // {note(p)}")
    print("\n".join([*out, "}"]))


def enum(d, p):
    """A nested message must not have the name of the one around it."""
    name = camel(p["name"])
    return name + "Word" if name == camel(d["name"]) else name


if __name__ == "__main__":
    main()
