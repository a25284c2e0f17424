import { readFileSync } from "node:fs";
import { credentials, status } from "@grpc/grpc-js";
import { describe, expect, test, vi } from "vitest";
import { makeCertificates } from "../helpers/certificates.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { until } from "../helpers/until.ts";
import { startWorkDelivery } from "../parts/work-stream/harness.ts";
import { startRun } from "../runner/start-run.ts";
import { startDelivery } from "./harness.ts";

const certificates = startBeforeAll(() => makeCertificates());
const file = (name: string) => certificates.file(name);

const pem = (name: string) => readFileSync(file(name), "utf8");

function channelCredentials(client?: string, authority = "authority") {
  const [ca, ...own] = [
    `${authority}.pem`,
    ...(client === undefined ? [] : [`${client}.key`, `${client}.pem`]),
  ].map((name) => readFileSync(file(name)));
  return credentials.createSsl(ca, ...own);
}

describe("TLS", () => {
  test("A runner that trusts the certificate is served, and one that speaks plaintext is not", async () => {
    const { accept, connect } = await startDelivery({
      tls: { cert: pem("server.pem"), key: pem("server.key") },
    });
    const stream = await connect({ credentials: channelCredentials() }).subscribe();
    await accept();
    await stream.next();
    await expect(connect().subscribe()).rejects.toMatchObject({ code: status.UNAVAILABLE });
  });

  test("The Node library's runner trusts its CA file's authorities, and no others", async () => {
    const tls = { cert: pem("server.pem"), key: pem("server.key") };
    const { accept, address, store } = await startWorkDelivery({ tls, tokens: ["secret"] });
    const options = { address, token: "secret" };
    const stranger = startRun(() => "no", { ...options, ca: file("stranger.pem") });
    await until(() => stranger.lines.some((line) => line.startsWith("cannot connect")));
    const trusting = startRun(() => "done", { ...options, ca: file("authority.pem") });
    await accept();
    await until(async () => (await store.totals()).calls.ready + (await store.totals()).calls.leased === 0);
    expect(trusting.lines).toEqual([`connected to ${address} as test`]);
    expect(stranger.lines.join()).not.toContain("connected to");
  });

  test("A key that does not fit its certificate makes the start fail", async () => {
    const tls = { cert: pem("server.pem"), key: pem("runner.key") };
    await expect(startDelivery({ tls })).rejects.toThrow(/key values mismatch/i);
  });
});

test("A reload serves new certificates to new connections, and leaves open streams alone", async () => {
  const tls = { cert: pem("server.pem"), key: pem("server.key"), clientCa: pem("authority.pem") };
  const { server, accept, connect } = await startDelivery({ tls });
  const open = await connect({ credentials: channelCredentials("runner") }).subscribe();
  const next = { cert: pem("impostor.pem"), key: pem("impostor.key"), clientCa: pem("stranger.pem") };
  expect(() => server.reload({ tokens: [], tls: { ...next, key: tls.key } })).toThrow(/key values mismatch/i);
  server.reload({ tokens: [], tls: next });

  const replaced = await connect({ credentials: channelCredentials("impostor", "stranger") }).subscribe();
  for (const stream of [open, replaced]) {
    await accept();
    await stream.next();
  }
  const untrusting = connect({ credentials: channelCredentials("runner") });
  await expect(untrusting.subscribe()).rejects.toMatchObject({ code: status.UNAVAILABLE });
  const untrusted = connect({ credentials: channelCredentials("runner", "stranger") });
  await expect(untrusted.subscribe()).rejects.toMatchObject({ code: status.UNAUTHENTICATED });
});

describe("Mutual TLS", () => {
  test("A runner whose certificate the client CA signed is served", async () => {
    const tls = { cert: pem("server.pem"), key: pem("server.key"), clientCa: pem("authority.pem") };
    const { accept, connect } = await startDelivery({ tls });
    const stream = await connect({ credentials: channelCredentials("runner") }).subscribe();
    await accept();
    await stream.next();
  });

  test("The Node library's runner presents its certificate", async () => {
    const tls = { cert: pem("server.pem"), key: pem("server.key"), clientCa: pem("authority.pem") };
    const { accept, address, store } = await startWorkDelivery({ tls });
    const options = { address, ca: file("authority.pem") };
    await expect(startRun(() => "no", options).ended).rejects.toThrow("refuses this runner");
    const acks = vi.spyOn(store, "ack");
    startRun(() => "done", { ...options, cert: file("runner.pem"), key: file("runner.key") });
    await accept();
    await until(() => acks.mock.calls.length === 1);
  });

  test.each([undefined, "impostor"])(
    "No client certificate, or a stranger's (%s), is UNAUTHENTICATED",
    async (client) => {
      const tls = { cert: pem("server.pem"), key: pem("server.key"), clientCa: pem("authority.pem") };
      const { connect } = await startWorkDelivery({ tls });
      const runner = connect({ credentials: channelCredentials(client) });
      await expect(runner.subscribe()).rejects.toMatchObject({ code: status.UNAUTHENTICATED });
      await expect(runner.ack()).rejects.toMatchObject({ code: status.UNAUTHENTICATED });
    },
  );
});
