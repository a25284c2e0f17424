import { execFile } from "node:child_process";
import { once } from "node:events";
import { chmod, stat, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { create } from "@bufbuild/protobuf";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { credentials, makeClientConstructor, type ServiceError, status } from "@grpc/grpc-js";
import { describe, expect, onTestFinished, test } from "vitest";
import {
  Health,
  HealthCheckRequestSchema,
  type HealthCheckResponse,
  HealthCheckResponse_ServingStatus as ServingStatus,
} from "../../src/gen/grpc/health/v1/health_pb.ts";
import { LeaseStatus } from "../../src/gen/jobgate/v1/runner_pb.ts";
import { grpcServiceDefinition } from "../../src/grpc/service-definition.ts";
import { testFolder } from "../helpers/test-folder.ts";
import { until } from "../helpers/until.ts";
import { connectRunner, openStoreForTest, startDelivery } from "./harness.ts";

const run = promisify(execFile);

/** Runs a client without .proto files, which learns the services from the server. */
async function bufCurl(address: string, ...args: string[]): Promise<string> {
  const curl = ["curl", "--protocol", "grpc", "--http2-prior-knowledge"];
  const asked = args.map((arg) => arg.replace("ADDRESS", address));
  const { stdout } = await run("node_modules/.bin/buf", [...curl, ...asked], { timeout: 50_000 });
  return stdout;
}

const HealthClient = makeClientConstructor(grpcServiceDefinition(Health), Health.typeName);

/** Returns the name of the status that Check answers, or of the gRPC error. */
function checkHealth(address: string, service = ""): Promise<string> {
  const client = new HealthClient(address, credentials.createInsecure());
  return new Promise((resolve) => {
    const deadline = Date.now() + 50_000;
    client.check?.(
      create(HealthCheckRequestSchema, { service }),
      { deadline },
      (error: ServiceError | null, response: HealthCheckResponse) => {
        client.close();
        const names: Record<number, string> = Object.fromEntries(
          Object.entries(ServingStatus).map(([name, number]) => [number, name]),
        );
        resolve(error ? (status[error.code] ?? "") : (names[response.status] ?? ""));
      },
    );
  });
}

describe("Token", () => {
  test.each([undefined, "wrong", "secre", "secret2", ""])(
    "Without the right token (%j) every call is UNAUTHENTICATED",
    async (token) => {
      const { connect } = await startDelivery({ tokens: ["secret"] });
      const runner = connect(token === undefined ? {} : { token });
      const refused = { code: status.UNAUTHENTICATED };
      await expect(runner.subscribe()).rejects.toMatchObject(refused);
      await expect(runner.ack()).rejects.toMatchObject(refused);
      await expect(runner.nack()).rejects.toMatchObject(refused);
      await expect(runner.extend([])).rejects.toMatchObject(refused);
    },
  );

  test("Calls with the right token are served", async () => {
    const { accept, connect } = await startDelivery({ tokens: ["secret"] });
    const runner = connect({ token: "secret" });
    const stream = await runner.subscribe();
    await accept();
    expect(await runner.ack(await stream.next())).toEqual([LeaseStatus.DONE]);
  });
});

test("A client without .proto files finds the services by v1 and calls them by v1alpha; reflection needs the token, health does not", async () => {
  const { address } = await startDelivery({ tokens: ["secret"] });
  const list = ["--list-methods", "http://ADDRESS"];
  await expect(bufCurl(address, ...list)).rejects.toThrow(/unauthenticated|token/i);
  expect(await checkHealth(address)).toBe("SERVING");
  const authorized = (protocol: string) => [
    ...["--reflect-protocol", protocol, "--reflect-header", "authorization: Bearer secret"],
  ];
  const methods = await bufCurl(address, ...authorized("grpc-v1"), ...list);
  expect(methods.trim().split("\n")).toEqual([
    "grpc.health.v1.Health/Check",
    "grpc.health.v1.Health/List",
    "grpc.health.v1.Health/Watch",
    "grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "jobgate.v1.RunnerService/Ack",
    "jobgate.v1.RunnerService/Extend",
    "jobgate.v1.RunnerService/Nack",
    "jobgate.v1.RunnerService/Subscribe",
    "jobgate.v1.RunnerService/Work",
  ]);
  const ack = ["-d", '{"acks":[{"callId":"99","leaseToken":"x"}]}', "-H", "authorization: Bearer secret"];
  const url = "http://ADDRESS/jobgate.v1.RunnerService/Ack";
  const answer = await bufCurl(address, ...authorized("grpc-v1alpha"), ...ack, url);
  expect(JSON.parse(answer)).toEqual({ statuses: ["LEASE_STATUS_NOT_FOUND"] });
});

describe("Health", () => {
  test("The server and its service are SERVING while the store is writable", async () => {
    let writable = true;
    const { address } = await startDelivery({ status: () => ({ writable, pending: 0, full: false }) });
    expect(await checkHealth(address)).toBe("SERVING");
    expect(await checkHealth(address, "jobgate.v1.RunnerService")).toBe("SERVING");
    expect(await checkHealth(address, "no.such.Service")).toBe("NOT_FOUND");
    writable = false;
    await until(async () => (await checkHealth(address)) === "NOT_SERVING");
    expect(await checkHealth(address, "jobgate.v1.RunnerService")).toBe("NOT_SERVING");
    writable = true;
    await until(async () => (await checkHealth(address)) === "SERVING");
  });

  test("Watch streams the status and each change, and List names every service", async () => {
    let writable = true;
    const { address } = await startDelivery({ status: () => ({ writable, pending: 0, full: false }) });
    const transport = createGrpcTransport({ baseUrl: `http://${address}` });
    const client = createClient(Health, transport);
    const stop = new AbortController();
    onTestFinished(() => stop.abort());
    const watch = (service: string) =>
      client.watch({ service }, { signal: stop.signal })[Symbol.asyncIterator]();

    const statuses = watch("jobgate.v1.RunnerService");
    expect((await statuses.next()).value?.status).toBe(ServingStatus.SERVING);
    writable = false;
    expect((await statuses.next()).value?.status).toBe(ServingStatus.NOT_SERVING);
    expect((await watch("no.such.Service").next()).value?.status).toBe(ServingStatus.SERVICE_UNKNOWN);
    expect(
      Object.entries((await client.list({})).statuses).map(([name, { status }]) => [name, status]),
    ).toEqual([
      ["", ServingStatus.NOT_SERVING],
      ["jobgate.v1.RunnerService", ServingStatus.NOT_SERVING],
    ]);
  });
});

describe("Unix socket", () => {
  async function socketPath(): Promise<string> {
    const folder = await testFolder();
    await chmod(folder, 0o755);
    return join(folder, "runner.sock");
  }

  test("The socket has mode 0600, serves runners, and is removed by the stop", async () => {
    const path = await socketPath();
    const { server, address, accept, connect } = await startDelivery({ bindAddress: { kind: "unix", path } });
    expect(address).toBe(`unix:${path}`);
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    const stream = await connect().subscribe();
    await accept();
    await stream.next();
    await server.stop();
    await expect(stat(path)).rejects.toMatchObject({ code: "ENOENT" });
  });

  test("A path of the system's maximum length works; a longer one, or one in a missing folder, fails with the reason", async () => {
    const folder = dirname(await socketPath());
    const most = process.platform === "linux" ? 107 : 103;
    const long = (bytes: number) => join(folder, "x".repeat(bytes - folder.length - 1));
    const { connect } = await startDelivery({ bindAddress: { kind: "unix", path: long(most) } });
    await connect().subscribe();
    for (const [path, message] of [
      [long(most + 1), `expected at most ${most} bytes`],
      [join(folder, "none", "runner.sock"), `is there a folder ${join(folder, "none")}`],
    ] as const)
      await expect(startDelivery({ bindAddress: { kind: "unix", path } })).rejects.toThrow(message);
  });

  test("The socket file of a dead process is replaced", async () => {
    const path = await socketPath();
    await run(process.execPath, [
      "-e",
      `require("net").createServer().listen(${JSON.stringify(path)}, () => process.kill(process.pid, "SIGKILL"))`,
    ]).catch(() => undefined);
    expect((await stat(path)).isSocket()).toBe(true);
    const { connect } = await startDelivery({ bindAddress: { kind: "unix", path } });
    await connect().subscribe();
  });

  test("The socket of a living process is left alone, and the start fails", async () => {
    const path = await socketPath();
    const { connect } = await startDelivery({ bindAddress: { kind: "unix", path } });
    await expect(startDelivery({ bindAddress: { kind: "unix", path } })).rejects.toThrow(
      /Another process listens/,
    );
    await connect().subscribe();
  });

  test("A file that is not a socket is left alone, and the start fails", async () => {
    const path = await socketPath();
    await writeFile(path, "precious");
    await expect(startDelivery({ bindAddress: { kind: "unix", path } })).rejects.toThrow(/not a socket/);
    expect((await stat(path)).size).toBe(8);
  });
});

test("The start fails on a port in use, and leaves nothing running", async () => {
  const taken = createServer().listen(0, "127.0.0.1");
  onTestFinished(() => void taken.close());
  await once(taken, "listening");
  const { port } = taken.address() as { port: number };
  const bindAddress = { kind: "tcp" as const, host: "127.0.0.1", port };
  await expect(startDelivery({ bindAddress })).rejects.toThrow(/EADDRINUSE|No address added/);
});

describe("Shutdown", () => {
  test("A stop ends streams with UNAVAILABLE, still answers Ack, Nack and Extend, and then closes", async () => {
    const { store, server, address, accept, connect } = await startDelivery({ drainMs: 3_600_000 });
    const runner = connect();
    const stream = await runner.subscribe();
    for (let index = 0; index < 3; index++) await accept();
    const [first, second, third] = [await stream.next(), await stream.next(), await stream.next()];
    const stopped = server.stop();
    expect(await stream.ended).toMatchObject({ code: status.UNAVAILABLE });
    await expect(connect().subscribe()).rejects.toMatchObject({ code: status.UNAVAILABLE });
    expect(await checkHealth(address)).toBe("NOT_SERVING");
    const undelivered = await accept();
    expect(await runner.extend([first])).toEqual([LeaseStatus.DONE]);
    // A claim for the new JobCall would have been made before the lease was extended.
    expect((await store.totals()).calls).toMatchObject({ ready: 1, leased: 3 });
    expect(await runner.ack(first)).toEqual([LeaseStatus.DONE]);
    expect(await runner.nack({ ...second, outcome: { case: "fail", value: {} } })).toEqual([
      LeaseStatus.DONE,
    ]);
    const result = { body: Buffer.from("late"), contentType: "text/plain" };
    expect(await runner.ack({ ...third, result })).toEqual([LeaseStatus.DONE]);
    await stopped;
    await expect(runner.ack()).rejects.toMatchObject({ code: status.UNAVAILABLE });
    expect(undelivered).toBeGreaterThan(0);
  });

  test("A JobCall that is not finished by the end of the drain is delivered again after the restart, and is not a dead letter", async () => {
    const store = await openStoreForTest();
    const before = await startDelivery({ store, drainMs: 100, maxAttempts: 1 });
    const callId = BigInt(await before.accept());
    const held = await before.connect().subscribe();
    const first = await held.next();
    await before.server.stop();
    expect((await store.totals()).calls).toMatchObject({ ready: 1, leased: 0, dead: 0 });

    const after = await startDelivery({ store, maxAttempts: 1 });
    const runner = after.connect();
    const stream = await runner.subscribe();
    expect(await stream.next()).toMatchObject({ callId, attempt: 2 });
    expect(await runner.ack(first)).toEqual([LeaseStatus.LEASE_LOST]);
  });

  test("A runner that hangs up during the drain keeps its lease until drain_ms is over", async () => {
    const drainMs = 300;
    const { store, server, accept, connect } = await startDelivery({ drainMs });
    await accept();
    const runner = connect();
    await (await runner.subscribe()).next();
    const stoppedAt = performance.now();
    const stopped = server.stop();
    runner.close();
    await until(async () => (await store.totals()).calls.leased === 0);
    // A timer may end a millisecond early.
    expect(performance.now() - stoppedAt).toBeGreaterThanOrEqual(drainMs - 1);
    await stopped;
    expect((await store.totals()).calls).toMatchObject({ ready: 1, leased: 0, dead: 0 });
  });

  test("A second stop does nothing", async () => {
    const { server, address } = await startDelivery();
    await Promise.all([server.stop(), server.stop()]);
    await expect(connectRunner(address).subscribe()).rejects.toMatchObject({ code: status.UNAVAILABLE });
  });
});

test("A method that no part of the build serves is UNIMPLEMENTED", async () => {
  const { connect } = await startDelivery();
  const stream = await connect()
    .work()
    .catch((error: unknown) => error);
  expect(String(stream)).toContain(
    "UNIMPLEMENTED: The server does not implement the method /jobgate.v1.RunnerService/Work",
  );
  const subscribed = await connect().subscribe();
  subscribed.cancel();
});
