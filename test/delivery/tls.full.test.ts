import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { credentials, status } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startDelivery } from "./harness.ts";

/** Needs the `openssl` command: Node can read certificates but not make them. */
const openssl = (...args: string[]) => promisify(execFile)("openssl", args, { timeout: 20_000 });

let folder: string;
const file = (name: string) => join(folder, name);
const newKey = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];

async function makeAuthority(name: string): Promise<void> {
  const out = ["-keyout", file(`${name}.key`), "-out", file(`${name}.pem`)];
  await openssl("req", "-x509", ...newKey, ...out, "-days", "2", "-subj", `/CN=${name}`);
}

async function makeCertificate(name: string, authority: string): Promise<void> {
  const request = ["-keyout", file(`${name}.key`), "-out", file(`${name}.csr`), "-subj", `/CN=${name}`];
  await openssl("req", "-new", ...newKey, ...request, "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1");
  const signer = ["-CA", file(`${authority}.pem`), "-CAkey", file(`${authority}.key`), "-CAcreateserial"];
  const paths = ["-in", file(`${name}.csr`), "-out", file(`${name}.pem`)];
  await openssl("x509", "-req", ...paths, ...signer, "-days", "2", "-copy_extensions", "copy");
}

async function channelCredentials(client?: string) {
  const pem = (name: string) => readFile(file(name));
  const authority = await pem("authority.pem");
  if (client === undefined) return credentials.createSsl(authority);
  return credentials.createSsl(authority, await pem(`${client}.key`), await pem(`${client}.pem`));
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "jobgate-tls-"));
  await Promise.all([makeAuthority("authority"), makeAuthority("stranger")]);
  await Promise.all([
    makeCertificate("server", "authority"),
    makeCertificate("runner", "authority"),
    makeCertificate("impostor", "stranger"),
  ]);
});

afterAll(() => rm(folder, { recursive: true, force: true }));

describe("TLS", () => {
  test("A runner that trusts the certificate is served, and one that speaks plaintext is not", async () => {
    const { accept, connect } = await startDelivery({
      tls: { cert: file("server.pem"), key: file("server.key") },
    });
    const stream = await connect({ credentials: await channelCredentials() }).subscribe();
    await accept();
    await stream.next();
    await expect(connect().subscribe()).rejects.toMatchObject({ code: status.UNAVAILABLE });
  });

  test("A key that does not fit its certificate makes the start fail", async () => {
    const tls = { cert: file("server.pem"), key: file("runner.key") };
    await expect(startDelivery({ tls })).rejects.toThrow(/key values mismatch/i);
  });
});

describe("Mutual TLS", () => {
  test("A runner whose certificate the client CA signed is served", async () => {
    const tls = { cert: file("server.pem"), key: file("server.key"), clientCa: file("authority.pem") };
    const { accept, connect } = await startDelivery({ tls });
    const stream = await connect({ credentials: await channelCredentials("runner") }).subscribe();
    await accept();
    await stream.next();
  });

  test.each([undefined, "impostor"])(
    "No client certificate, or a stranger's (%s), is UNAUTHENTICATED",
    async (client) => {
      const tls = { cert: file("server.pem"), key: file("server.key"), clientCa: file("authority.pem") };
      const { connect } = await startDelivery({ tls });
      const runner = connect({ credentials: await channelCredentials(client) });
      await expect(runner.subscribe()).rejects.toMatchObject({ code: status.UNAUTHENTICATED });
      await expect(runner.ack()).rejects.toMatchObject({ code: status.UNAUTHENTICATED });
    },
  );
});
