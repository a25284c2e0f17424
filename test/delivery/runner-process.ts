// A runner in a separate process, for tests that kill or freeze it. Prints "ready", then the id of each JobCall.

import { create } from "@bufbuild/protobuf";
import { credentials, makeClientConstructor } from "@grpc/grpc-js";
import { type JobCall, RunnerService, SubscribeRequestSchema } from "../../src/gen/jobgate/v1/runner_pb.ts";
import { grpcServiceDefinition } from "../../src/grpc/service-definition.ts";

const [address = ""] = process.argv.slice(2);
const Client = makeClientConstructor(grpcServiceDefinition(RunnerService), RunnerService.typeName);
const client = new Client(address, credentials.createInsecure());
const stream = client.subscribe?.(create(SubscribeRequestSchema, { subscriber: "process", maxInFlight: 5 }));
stream.on("metadata", () => console.log("ready"));
stream.on("data", (call: JobCall) => console.log(String(call.callId)));
stream.on("error", (error: Error) => console.log(error.message));
