"""A gRPC client of posenc.v1 that knows nothing beforehand: it asks the server's reflection for the contract and builds
the message classes at run time. No generated code.

    client = Client("127.0.0.1:50051")
    request = client.request("laplacian", {"k": 3}, graph={...})
    answer = client.encode(request)          {name: numpy array}
"""
import copy

import grpc
import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

DTYPES = ["<f4", "<f8", "<f2", "bfloat16", "<i4", "<i8", "|u1", "<i2"]     # by number of posenc.v1.DType


# ---- as much of the wire format as reflection's own messages need ----

def field(number, payload):
    """A length-delimited field."""
    return bytes([number << 3 | 2]) + varint(len(payload)) + payload


def varint(v):
    out = b""
    while v >= 0x80:
        out += bytes([v & 0x7F | 0x80])
        v >>= 7
    return out + bytes([v])


def fields(data):
    """(number, value) of every field; varints as int, the rest as bytes."""
    at = 0

    def number():
        nonlocal at
        shift = v = 0
        while True:
            b = data[at]
            at += 1
            v |= (b & 0x7F) << shift
            shift += 7
            if b < 0x80:
                return v

    while at < len(data):
        tag = number()
        if tag & 7 == 0:
            yield tag >> 3, number()
        elif tag & 7 == 2:
            n = number()
            yield tag >> 3, data[at:at + n]
            at += n
        else:
            raise ValueError(f"wire type {tag & 7}")


def reflect(channel, version, questions, timeout=10):
    """Answers of the reflection service to [(field number, text)] as [(field number, bytes)]."""
    call = channel.stream_stream(f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo")
    answers = call(iter([field(n, text.encode()) for n, text in questions]), timeout=timeout)
    return [next((n, v) for n, v in fields(a) if n in (4, 5, 6, 7)) for a in answers]


BY_FILE, BY_SYMBOL, LIST = 3, 4, 7
FILES, EXTENSIONS, SERVICES, ERROR = 4, 5, 6, 7


def services(channel, version="v1"):
    [(kind, body)] = reflect(channel, version, [(LIST, "")])
    assert kind == SERVICES
    return [dict(fields(s))[1].decode() for _, s in fields(body)]


def build_pool(channel, version="v1"):
    """A descriptor pool with all that the server's services need."""
    pool, waiting = descriptor_pool.DescriptorPool(), {}
    questions = [(BY_SYMBOL, s) for s in services(channel, version)] + [(BY_FILE, "google/rpc/error_details.proto"),
                                                                        (BY_FILE, "google/rpc/status.proto")]
    for kind, body in reflect(channel, version, questions):
        assert kind == FILES, body
        for _, serialized in fields(body):
            f = descriptor_pb2.FileDescriptorProto.FromString(serialized)
            waiting[f.name] = f
    done = set()

    def add(name):
        if name not in done:
            done.add(name)
            for d in waiting[name].dependency:
                add(d)
            pool.Add(waiting[name])

    for name in list(waiting):
        add(name)
    return pool


# ---- the client ----

class Client:
    def __init__(self, address, version="v1", limit=64 << 20):
        self.address, self.limit = address, limit
        self.open()
        self.pool = build_pool(self.channel, version)
        self.factory = message_factory.MessageFactory(self.pool)
        self.EncodeRequest = self.message("posenc.v1.EncodeRequest")

    def open(self):
        """A channel, and so a connection, of its own."""
        self.channel = grpc.insecure_channel(self.address, [("grpc.max_receive_message_length", self.limit),
                                                            ("grpc.use_local_subchannel_pool", 1)])

    def twin(self):
        """Another client of the same server, with a connection of its own."""
        other = copy.copy(self)
        other.open()
        return other

    def close(self):
        self.channel.close()

    def message(self, name):
        return self.factory.GetPrototype(self.pool.FindMessageTypeByName(name))

    def method(self, path):
        """A stub of "package.Service.Method"."""
        service, name = path.rsplit(".", 1)
        m = self.pool.FindServiceByName(service).methods_by_name[name]
        p = m.GetOptions() and descriptor_pb2.MethodDescriptorProto()
        m.CopyToProto(p)
        kind = {(False, False): "unary_unary", (False, True): "unary_stream", (True, True): "stream_stream"}[
            (p.client_streaming, p.server_streaming)]
        return getattr(self.channel, kind)(f"/{service}/{name}", self.message(m.input_type.full_name).SerializeToString,
                                           self.message(m.output_type.full_name).FromString)

    def call(self, path, request=None, timeout=60, **kw):
        service, name = path.rsplit(".", 1)
        made = request if request is not None else self.message(
            self.pool.FindServiceByName(service).methods_by_name[name].input_type.full_name)()
        return self.method(path)(made, timeout=timeout, **kw)

    def tensor(self, message, array, name=""):
        a = np.ascontiguousarray(array)
        if a.dtype == bool:
            a = a.astype(np.uint8)
        if a.dtype.newbyteorder("<").str not in DTYPES:
            a = a.astype("<i8" if a.dtype.kind in "iu" else "<f8")
        message.name, message.dtype = name, DTYPES.index(a.dtype.newbyteorder("<").str)
        message.shape.extend(np.shape(array))
        message.data = a.astype(a.dtype.newbyteorder("<")).tobytes()

    def request(self, encoding, params=None, inputs=None, graph=None, **common):
        """EncodeRequest from parameters as REST has them: words, numbers, lists; tensors as arrays."""
        r = self.EncodeRequest(**common)
        message = getattr(r, encoding)
        message.SetInParent()
        for name, value in {**(params or {}), **(inputs or {})}.items():
            self.set(message if name in message.DESCRIPTOR.fields_by_name else r, name, value)
        if graph is not None:
            edges = np.asarray(graph["edge_index"], dtype=np.int64).reshape(2, -1)
            r.graph.num_nodes = graph["num_nodes"]
            r.graph.edge_index.extend(edges.ravel().tolist())
            r.graph.directed = bool(graph.get("directed", False))
            r.graph.edge_weight.extend(np.asarray(graph.get("edge_weight", []), dtype=float).tolist())
            r.graph.ptr.extend(np.asarray(graph.get("ptr", []), dtype=np.int64).tolist())
        return r

    def set(self, message, name, value):
        f = message.DESCRIPTOR.fields_by_name[name]
        if f.label == f.LABEL_REPEATED:
            getattr(message, name).extend(value)
        elif f.enum_type:
            setattr(message, name, f.enum_type.values_by_name[value.upper().replace("-", "_").replace(".", "_")].number)
        elif f.message_type:
            self.tensor(getattr(message, name).inline, value)
        elif f.cpp_type in (f.CPPTYPE_DOUBLE, f.CPPTYPE_FLOAT):
            setattr(message, name, float(value))
        else:
            setattr(message, name, value)

    @staticmethod
    def array(t, data=None):
        data = t.data if data is None else data
        if DTYPES[t.dtype] == "bfloat16":
            return (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4").reshape(list(t.shape))
        return np.frombuffer(data, DTYPES[t.dtype]).reshape(list(t.shape))

    def encode(self, request, timeout=60):
        return {t.name: self.array(t) for t in self.call("posenc.v1.EncodingService.Encode", request, timeout).tensors}

    def stream(self, request, timeout=60):
        """(header, tensors' bytes) of EncodeStream; offsets are checked."""
        header, data = None, bytearray()
        for chunk in self.call("posenc.v1.EncodingService.EncodeStream", request, timeout):
            if header is None:
                assert chunk.HasField("header") and not chunk.data
                header = chunk
            else:
                assert chunk.offset == len(data)
                data += chunk.data
        assert len(data) == header.total_size
        return header.header, bytes(data)

    def details(self, error):
        """google.rpc.Status of an RpcError, its details unpacked: (status, {short name: message})."""
        packed = dict(error.trailing_metadata())["grpc-status-details-bin"]
        status = self.message("google.rpc.Status").FromString(packed)
        found = {}
        for any_message in status.details:
            name = any_message.type_url.rsplit("/", 1)[1]
            found[name.rsplit(".", 1)[1]] = self.message(name).FromString(any_message.value)
        return status, found
