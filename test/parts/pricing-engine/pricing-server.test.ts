import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { fromBinary, toJson } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";
import { expect, onTestFinished, test } from "vitest";
import { GetJobPriceRequestSchema } from "../../../src/gen/pricing_engine/pricing_pb.ts";
import { EngineClient } from "../../../src/parts/pricing-engine/engine-client.ts";
import { PricingServer } from "../../../src/parts/pricing-engine/pricing-server.ts";
import { startLog } from "../../helpers/log.ts";
import { bindAddress, jobRequest, PAYMENT, startServer } from "./pricing-server-harness.ts";

test("A client without .proto files finds the service and can call it", async () => {
  const { server } = await startServer({ findPayment: async () => PAYMENT });
  const methods = await bufCurl("--list-methods", `http://${server.address}`);
  expect(methods.trim().split("\n")).toEqual([
    "grpc.health.v1.Health/Check",
    "grpc.health.v1.Health/List",
    "grpc.health.v1.Health/Watch",
    "grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "pricing_engine.PricingEngine/GetJobPrice",
    "pricing_engine.PricingEngine/GetPrice",
  ]);
  const asJson = JSON.stringify(
    toJson(GetJobPriceRequestSchema, fromBinary(GetJobPriceRequestSchema, jobRequest())),
  );
  const quote = await bufCurl(
    "-d",
    asJson,
    `http://${server.address}/pricing_engine.PricingEngine/GetJobPrice`,
  );
  expect(JSON.parse(quote)).toMatchObject({
    quoteDetails: { serviceId: "1" },
    settlementOptions: [{ amount: "3264000" }],
  });
  const service = '{"service":"pricing_engine.PricingEngine"}';
  const health = await bufCurl("-d", service, `http://${server.address}/grpc.health.v1.Health/Check`);
  expect(JSON.parse(health)).toEqual({ status: "SERVING" });
});

/** An independent client, which learns the messages by reflection. */
async function bufCurl(...args: string[]): Promise<string> {
  const all = ["curl", "--protocol", "grpc", "--http2-prior-knowledge", "--reflect", ...args];
  return (await promisify(execFile)("node_modules/.bin/buf", all, { timeout: 50_000 })).stdout;
}

test("A stopping server answers the calls in progress first, then frees its address", async () => {
  const { engine, server, ask } = await startServer();
  engine.faults.delayMs = 300;
  const asked = ask();
  await expect.poll(() => engine.calls.length).toBe(1);
  await Promise.all([server.stop(), server.stop()]);
  expect((await asked).status.code).toBe(status.OK);
  expect((await ask()).status.code).toBe(status.UNAVAILABLE);
});

test("An address in use fails the start and leaves nothing running", async () => {
  const { server, engine } = await startServer();
  const client = new EngineClient(engine.url);
  onTestFinished(() => client.stop());
  const port = Number(server.address.split(":")[1]);
  const { logger } = startLog();
  const second = new PricingServer({ config: { bindAddress: { ...bindAddress, port } }, client, logger });
  await expect(second.start()).rejects.toThrow(/EADDRINUSE|bind/);
  await second.stop();
});
