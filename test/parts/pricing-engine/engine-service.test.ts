import { Metadata } from "@grpc/grpc-js";
import { expect, test } from "vitest";
import { passedMetadata } from "../../../src/parts/pricing-engine/engine-service.ts";

test("Metadata of the sender is forwarded in order; metadata of the connection or of gRPC is not", () => {
  const metadata = new Metadata();
  for (const key of [":path", "te", "content-type", "content-length", "user-agent", "host", "date"]) {
    metadata.add(key, "here");
  }
  for (const key of ["grpc-timeout", "grpc-encoding", "grpc-accept-encoding", "grpc-previous-rpc-attempts"]) {
    metadata.add(key, "1");
  }
  metadata.add("grpc-status-details-bin", Buffer.from([1, 0, 255]));
  metadata.add("x-tenant", "a");
  metadata.add("x-tenant", "b");
  metadata.add("x-trace-bin", Buffer.from([0]));
  metadata.add("authorization", "Bearer t");
  const passed = passedMetadata(metadata);
  expect(passed.toJSON()).toEqual({
    "grpc-status-details-bin": [Buffer.from([1, 0, 255])],
    "x-tenant": ["a", "b"],
    "x-trace-bin": [Buffer.from([0])],
    authorization: ["Bearer t"],
  });
  expect(metadata.get("te")).toEqual(["here"]);
});
