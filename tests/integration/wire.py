"""Foreign clients' view of both doors: message classes from the .proto files, a graph and a JSON body from one request."""
import base64
import subprocess
import sys
import tempfile
from pathlib import Path

import grpc
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
_out = tempfile.mkdtemp(prefix="posenc-py-")
_protos = [str(p.relative_to(ROOT / base)) for base in ("proto", "proto/third_party") for p in (ROOT / base).rglob("*.proto")
           if base != "proto" or "third_party" not in p.parts]
subprocess.run(["protoc", f"--proto_path={ROOT}/proto", f"--proto_path={ROOT}/proto/third_party", "--proto_path=/usr/include",
                f"--python_out={_out}", *_protos], check=True)
# the generated tree has a grpc/ and a google/ folder: it stands behind the real packages, which are extended
sys.path.append(_out)
import google  # noqa: E402
import google.protobuf  # noqa: E402

for _package in (google, grpc):
    _package.__path__.append(f"{_out}/{_package.__name__}")
from google.rpc import error_details_pb2, status_pb2  # noqa: E402,F401
from grpc.health.v1 import health_pb2  # noqa: E402,F401
from posenc.v1 import encoding_service_pb2 as service  # noqa: E402
from posenc.v1 import tensor_pb2  # noqa: E402

DTYPES = {0: np.float32, 1: np.float64, 2: np.float16, 4: np.int32, 5: np.int64, 6: np.uint8}
NUMPY = {"float32": 0, "float64": 1, "float16": 2, "int32": 4, "int64": 5, "uint8": 6}


class Stub:
    """The encoding service over one channel of its own."""

    def __init__(self, address, **options):
        self.channel = grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1), *options.items()])
        self.encode = self._unary("Encode", service.EncodeRequest, service.EncodeResponse)
        self.list = self._unary("ListEncodings", service.ListEncodingsRequest, service.ListEncodingsResponse)
        self.stream = self.channel.unary_stream("/posenc.v1.EncodingService/EncodeStream", service.EncodeRequest.SerializeToString,
                                                service.EncodeChunk.FromString)

    def _unary(self, method, request, response):
        return self.channel.unary_unary(f"/posenc.v1.EncodingService/{method}", request.SerializeToString, response.FromString)

    def close(self):
        self.channel.close()


def tensor_of(array, name=None):
    array = np.ascontiguousarray(array)
    return tensor_pb2.Tensor(name=name, dtype=NUMPY[str(array.dtype)], shape=array.shape, data=array.tobytes())


def array_of(t):
    if t.dtype == tensor_pb2.BFLOAT16:
        return (np.frombuffer(t.data, "<u2").astype(np.uint32) << 16).view(np.float32).reshape(t.shape)
    return np.frombuffer(t.data, DTYPES[t.dtype]).reshape(t.shape)


def _enum(field, word):
    return field.enum_type.values_by_name[word.upper().replace("-", "_").replace(".", "_")].number


def request(encoding, params, inputs=None, graph=None, tensors=()):
    """An EncodeRequest from the flat parameters that a JSON body would hold."""
    q = service.EncodeRequest(tensors=tensors)
    message = getattr(q, encoding)
    message.SetInParent()
    for name, value in {**params, **(inputs or {})}.items():
        if name in ("dtype", "rev", "explain"):
            f = q.DESCRIPTOR.fields_by_name[name]
            setattr(q, name, _enum(f, value) if name == "dtype" else value)
            continue
        f = message.DESCRIPTOR.fields_by_name[name]
        if f.message_type is not None:
            getattr(message, name).inline.CopyFrom(tensor_of(np.asarray(value)))
        elif f.label == f.LABEL_REPEATED:
            getattr(message, name).extend(value)
        elif f.enum_type is not None:
            setattr(message, name, _enum(f, value))
        elif f.cpp_type in (f.CPPTYPE_DOUBLE, f.CPPTYPE_FLOAT):
            setattr(message, name, float(value))
        else:
            setattr(message, name, value)
    if graph:
        q.graph.num_nodes = graph["num_nodes"]
        q.graph.edge_index.extend(np.asarray(graph["edge_index"], np.int64).ravel().tolist())
        q.graph.directed = graph.get("directed", False)
        for name in ("edge_weight", "ptr"):
            if name in graph:
                getattr(q.graph, name).extend(np.asarray(graph[name]).tolist())
    return q


def json_body(params, inputs=None, graph=None):
    """The same request as a JSON-ready object."""
    body = dict(params)
    for name, value in (inputs or {}).items():
        a = np.ascontiguousarray(value)
        body[name] = {"dtype": str(a.dtype), "shape": list(a.shape), "data": base64.b64encode(a.tobytes()).decode()}
    if graph:
        body["graph"] = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in graph.items()}
    return body


def grid(rows, columns):
    """The edges of a grid graph, each once."""
    ids = np.arange(rows * columns).reshape(rows, columns)
    pairs = [np.stack([ids[:, :-1].ravel(), ids[:, 1:].ravel()]), np.stack([ids[:-1].ravel(), ids[1:].ravel()])]
    return {"num_nodes": rows * columns, "edge_index": np.concatenate(pairs, 1)}
