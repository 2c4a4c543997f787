// grpc_peer.cc - what posencd's gRPC door is measured against, and the load on both: tests/bench/serving.py.
//
// usage: grpc_peer message | raw              a server of posenc.v1.EncodingService.Encode on a free port of 127.0.0.1,
//                                             which it prints; one completion queue, a thread a core, as posencd has
//        grpc_peer load ADDRESS CALLS FILE    a line of standard input, "SECONDS", asks for that long, CALLS at once on one
//                                             connection, what FILE holds (an EncodeRequest), and prints how many answers
//                                             came and the bytes of one
//
// Both servers know sinusoidal float32 tables, made at their first request and then kept. message: idiomatic C++, a
// protobuf message that the table is copied into. raw: by hand, the kept table as a slice behind a header of its own.
#include "posenc/v1/encoding_service.grpc.pb.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

using posenc::v1::EncodeRequest;
using posenc::v1::EncodeResponse;
using posenc::v1::EncodingService;

struct Kept {
    EncodeResponse about; // all but the tensor's bytes
    std::string bytes;
    grpc::Slice header, slice; // raw: the message in front of the bytes, and the bytes, borrowed
};

static std::string varint(uint64_t v)
{
    std::string s;
    for (; v >= 0x80; v >>= 7)
        s.push_back(static_cast<char>(v | 0x80));
    s.push_back(static_cast<char>(v));
    return s;
}

// Entries are never dropped, so that what a lookup returns stays valid.
static const Kept &kept(const EncodeRequest &q)
{
    static std::mutex lock;
    static std::unordered_map<uint64_t, std::unique_ptr<Kept>> table;
    const uint64_t d = static_cast<uint64_t>(q.sinusoidal().embedding_dim());
    const uint64_t n = static_cast<uint64_t>(q.sinusoidal().num_positions());
    std::lock_guard<std::mutex> hold(lock);
    std::unique_ptr<Kept> &k = table[d << 32 | n];
    if (k)
        return *k;
    k = std::make_unique<Kept>();
    for (size_t i = 0; i < d * n * 4; i++)
        k->bytes.push_back(static_cast<char>(i * 2654435761u >> 13));
    k->about.set_encoding("sinusoidal");
    k->about.set_revision(1);
    k->about.set_digest(std::string(64, 'a'));
    k->about.set_params_json(std::string(300, ' '));
    posenc::v1::Tensor t;
    t.set_name("table");
    t.set_dtype(posenc::v1::FLOAT32);
    t.add_shape(static_cast<int64_t>(n));
    t.add_shape(static_cast<int64_t>(d));
    const std::string inner = t.SerializeAsString() + '\x22' + varint(k->bytes.size());
    k->header = grpc::Slice(k->about.SerializeAsString() + '\x3a' + varint(inner.size() + k->bytes.size()) + inner);
    k->slice = grpc::Slice(k->bytes.data(), k->bytes.size(), grpc::Slice::STATIC_SLICE);
    *k->about.add_tensors() = t;
    return *k;
}

static void answer(const EncodeRequest &q, EncodeResponse *r)
{
    const Kept &k = kept(q);
    *r = k.about;
    r->mutable_tensors(0)->set_data(k.bytes);
}

static void answer(grpc::ByteBuffer &bytes, grpc::ByteBuffer *r)
{
    EncodeRequest q;
    grpc::GenericDeserialize<grpc::ProtoBufferReader, EncodeRequest>(&bytes, &q);
    const Kept &k = kept(q);
    const grpc::Slice both[2] = { k.header, k.slice };
    *r = grpc::ByteBuffer(both, 2);
}

// One slot: waits for a call, answers it, waits for the next.
struct Slot {
    virtual ~Slot() = default;
    virtual void step() = 0;
};

template <class Service, class Request, class Response> struct Call : Slot {
    Service *service;
    grpc::ServerCompletionQueue *queue;
    std::unique_ptr<grpc::ServerContext> context;
    std::unique_ptr<grpc::ServerAsyncResponseWriter<Response>> writer;
    Request request;
    Response response;
    bool answered = true;

    Call(Service *s, grpc::ServerCompletionQueue *q) : service(s), queue(q) { step(); }
    void step() override
    {
        answered = !answered;
        if (answered) {
            answer(request, &response);
            context->AddTrailingMetadata("posenc-cache", "hit");
            context->AddTrailingMetadata("posenc-digest", std::string(64, 'a'));
            writer->Finish(response, grpc::Status::OK, this);
            return;
        }
        request.Clear();
        context = std::make_unique<grpc::ServerContext>();
        writer = std::make_unique<grpc::ServerAsyncResponseWriter<Response>>(context.get());
        service->RequestEncode(context.get(), &request, writer.get(), queue, queue, this);
    }
};

template <class Service, class Request, class Response> static int serve()
{
    Service service;
    int port = 0;
    grpc::ServerBuilder b;
    b.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    b.RegisterService(&service);
    b.SetMaxSendMessageSize(-1);
    std::unique_ptr<grpc::ServerCompletionQueue> queue = b.AddCompletionQueue();
    std::unique_ptr<grpc::Server> server = b.BuildAndStart();
    if (!server)
        return 1;
    std::vector<std::unique_ptr<Slot>> slots;
    for (int i = 0; i < 128; i++)
        slots.push_back(std::make_unique<Call<Service, Request, Response>>(&service, queue.get()));
    printf("%d\n", port);
    fflush(stdout);
    auto poll = [&queue] {
        void *tag;
        for (bool ok; queue->Next(&tag, &ok);)
            if (ok)
                static_cast<Slot *>(tag)->step();
    };
    for (unsigned i = 1; i < std::thread::hardware_concurrency(); i++)
        std::thread(poll).detach();
    poll();
    return 0;
}

struct Ask {
    grpc::ClientContext context;
    grpc::ByteBuffer answer;
    grpc::Status status;
    std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
};

static int load(const char *address, int calls, const char *path)
{
    std::string text(1 << 20, 0);
    FILE *f = fopen(path, "rb");
    if (!f) {
        perror(path);
        return 1;
    }
    text.resize(fread(&text[0], 1, text.size(), f));
    fclose(f);
    const grpc::Slice slice(text);
    const grpc::ByteBuffer question(&slice, 1);
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    grpc::GenericStub stub(grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
    grpc::CompletionQueue queue;
    auto ask = [&] {
        Ask *a = new Ask;
        a->reader = stub.PrepareUnaryCall(&a->context, "/posenc.v1.EncodingService/Encode", question, &queue);
        a->reader->StartCall();
        a->reader->Finish(&a->answer, &a->status, a);
    };
    char line[100];
    while (fgets(line, sizeof line, stdin)) {
        const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(atof(line));
        long answers = 0;
        size_t size = 0;
        for (int i = 0; i < calls; i++)
            ask();
        void *tag;
        bool ok;
        for (int busy = calls; busy && queue.Next(&tag, &ok);) {
            std::unique_ptr<Ask> a(static_cast<Ask *>(tag));
            if (!a->status.ok()) {
                fprintf(stderr, "grpc_peer: %s\n", a->status.error_message().c_str());
                return 1;
            }
            answers++;
            size = a->answer.Length();
            if (std::chrono::steady_clock::now() < end)
                ask();
            else
                busy--;
        }
        printf("%ld 0 %zu\n", answers, size);
        fflush(stdout);
    }
    return 0;
}

int main(int argc, char **argv)
{
    const std::string mode = argc > 1 ? argv[1] : "";
    if (mode == "message" && argc == 2)
        return serve<EncodingService::AsyncService, EncodeRequest, EncodeResponse>();
    if (mode == "raw" && argc == 2)
        return serve<EncodingService::WithRawMethod_Encode<EncodingService::Service>, grpc::ByteBuffer, grpc::ByteBuffer>();
    if (mode == "load" && argc == 5)
        return load(argv[2], atoi(argv[3]), argv[4]);
    fprintf(stderr, "usage: grpc_peer message | raw | load ADDRESS CALLS FILE\n");
    return 2;
}
