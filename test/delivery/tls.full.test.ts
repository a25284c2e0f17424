import { readFileSync } from "node:fs";
import { credentials, status } from "@grpc/grpc-js";
import { describe, expect, test } from "vitest";
import { makeCertificates } from "../helpers/certificates.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
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
  test("A runner that trusts the certificate is served, and a runner that speaks plaintext is not", async () => {
    const { accept, connect } = await startDelivery({
      tls: { cert: pem("server.pem"), key: pem("server.key") },
    });
    const stream = await connect({ credentials: channelCredentials() }).subscribe();
    await accept();
    await stream.next();
    await expect(connect().subscribe()).rejects.toMatchObject({ code: status.UNAVAILABLE });
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

  test.each([undefined, "impostor"])(
    "No client certificate, or a stranger's (%s), is UNAUTHENTICATED",
    async (client) => {
      const tls = { cert: pem("server.pem"), key: pem("server.key"), clientCa: pem("authority.pem") };
      const { connect } = await startDelivery({ tls });
      const runner = connect({ credentials: channelCredentials(client) });
      await expect(runner.subscribe()).rejects.toMatchObject({ code: status.UNAUTHENTICATED });
      await expect(runner.ack()).rejects.toMatchObject({ code: status.UNAUTHENTICATED });
    },
  );
});
