"""What REST's tests send: JSON bodies, safetensors bodies, a grid."""
import base64
import json
import struct

import numpy as np


def json_body(params, inputs=None, graph=None):
    """Flat parameters, tensors as {dtype, shape, data}, the graph inline; ready for json.dumps."""
    body = dict(params)
    for name, value in (inputs or {}).items():
        a = np.ascontiguousarray(value)
        body[name] = {"dtype": str(a.dtype), "shape": list(a.shape), "data": base64.b64encode(a.tobytes()).decode()}
    if graph:
        body["graph"] = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in graph.items()}
    return body


def safetensors(tensors):
    """A safetensors file of int64 and float64 arrays."""
    head, data = {}, b""
    for name, a in tensors.items():
        a = np.asarray(a)
        head[name] = {"dtype": {"int32": "I32", "int64": "I64", "float64": "F64"}[str(a.dtype)], "shape": list(a.shape),
                      "data_offsets": [len(data), len(data) + a.nbytes]}
        data += a.tobytes()
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def grid(rows, columns):
    """The edges of a grid graph, each once."""
    ids = np.arange(rows * columns).reshape(rows, columns)
    pairs = [np.stack([ids[:, :-1].ravel(), ids[:, 1:].ravel()]), np.stack([ids[:-1].ravel(), ids[1:].ravel()])]
    return {"num_nodes": rows * columns, "edge_index": np.concatenate(pairs, 1)}
