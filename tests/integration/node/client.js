// A client that knows nothing but the address: it learns the contract from reflection, then asks for tensors.
// usage: node client.js GRPC_ADDRESS HTTP_URL
import assert from "node:assert";
import { createHash } from "node:crypto";
import grpc from "@grpc/grpc-js";
import reflection from "grpc-js-reflection-client";

const [address, url] = process.argv.slice(2);
const insecure = grpc.credentials.createInsecure();
const GrpcReflection = reflection.GrpcReflection ?? reflection.default?.GrpcReflection;
let passed = 0;
const ok = (name) => { passed++; console.log(`ok ${name}`); };

const learn = new GrpcReflection(address, insecure);
const services = await learn.listServices();
for (const name of ["posenc.v1.EncodingService", "grpc.health.v1.Health"]) assert(services.includes(name), `${name} is not listed: ${services}`);
ok("reflection lists the services");

const descriptor = await learn.getDescriptorBySymbol("posenc.v1.EncodingService");
const contract = descriptor.getPackageObject({ keepCase: true, longs: Number, enums: String });
const client = new contract.posenc.v1.EncodingService(address, insecure);
const call = (method, request, options = {}) => new Promise((resolve) => {
  const c = client[method](request, new grpc.Metadata(), options, (error, value) => { answer.error = error; answer.value = value; });
  const answer = { call: c };
  c.on("status", (status) => { answer.status = status; resolve(answer); });
});

const request = { sinusoidal: { embedding_dim: 64, num_positions: 128 } };
const encoded = await call("Encode", request);
assert.ifError(encoded.error);
const tensor = encoded.value.tensors[0];
assert.deepStrictEqual([tensor.name, tensor.shape.map(Number), tensor.data.length], ["table", [128, 64], 128 * 64 * 4]);
const bin = Buffer.from(await (await fetch(`${url}/v1/encodings/sinusoidal/table.bin?embedding_dim=64&num_positions=128`)).arrayBuffer());
assert(bin.equals(tensor.data), "REST and gRPC differ");
ok("Encode: the same bytes as REST");

const chunks = await new Promise((resolve, reject) => {
  const list = [];
  client.EncodeStream({ sinusoidal: { embedding_dim: 1024, num_positions: 2048 } }).on("data", (c) => list.push(c)).on("end", () => resolve(list)).on("error", reject);
});
const streamed = createHash("sha256");
for (const c of chunks.slice(1)) streamed.update(c.data);
const whole = Buffer.from(await (await fetch(`${url}/v1/encodings/sinusoidal/table.bin?embedding_dim=1024&num_positions=2048`)).arrayBuffer());
assert.strictEqual(streamed.digest("hex"), createHash("sha256").update(whole).digest("hex"));
assert(chunks.length > 20, `${chunks.length} chunks`);
ok("EncodeStream: 8 MiB in chunks, the same bytes as REST");

const wrong = await call("Encode", { sinusoidal: { embedding_dim: 7, num_positions: 4 } });
assert.strictEqual(wrong.error.code, grpc.status.INVALID_ARGUMENT);
assert.match(wrong.error.details, /embedding_dim/);
assert(wrong.status.metadata.get("grpc-status-details-bin").length === 1, "no status details");
ok("an error names the field and carries details");

const n = 141, source = [], target = [];
for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) {
  if (j + 1 < n) { source.push(i * n + j); target.push(i * n + j + 1); }
  if (i + 1 < n) { source.push(i * n + j); target.push(i * n + n + j); }
}
const slow = { laplacian: { k: 128 }, tensors: ["eigenvalues"], graph: { num_nodes: n * n, edge_index: [...source, ...target] } };
const late = await call("Encode", slow, { deadline: Date.now() + 200 });
assert.strictEqual(late.error.code, grpc.status.DEADLINE_EXCEEDED);
ok("a deadline is kept");

console.log(`${passed} passed, 0 failed`);
process.exit(0);
