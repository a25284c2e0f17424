import { readFile } from "node:fs/promises";
import { createSecureContext } from "node:tls";
import { experimental, ServerCredentials } from "@grpc/grpc-js";
import type { RunnerConfig } from "../config/config.ts";

/**
 * Reads the PEM files and checks that they fit each other. Without `tls`: plain HTTP/2.
 *
 * With `clientCa`, a connection without a good certificate is not cut: its calls are answered UNAUTHENTICATED
 * (see authentication.ts), so that the runner's author sees what is wrong. `ServerCredentials.createSsl` cannot do that.
 */
export async function readServerCredentials(tls: RunnerConfig["tls"]): Promise<ServerCredentials> {
  if (tls === undefined) return ServerCredentials.createInsecure();
  const [certificate, privateKey, caCertificate] = await Promise.all([
    readFile(tls.cert),
    readFile(tls.key),
    tls.clientCa === undefined ? undefined : readFile(tls.clientCa),
  ]);
  createSecureContext({ cert: certificate, key: privateKey, ca: caCertificate });
  const files = new PemFiles({ certificate, privateKey, caCertificate });
  return experimental.createCertificateProviderServerCredentials(files, caCertificate ? files : null, false);
}

type Provider = experimental.CertificateProvider;

/** Certificates that do not change. Listeners are told in a later tick: grpc-js registers them before itself. */
class PemFiles implements Provider {
  readonly #identity: experimental.IdentityCertificateUpdate;
  readonly #ca: experimental.CaCertificateUpdate | null;

  constructor(pem: { certificate: Buffer; privateKey: Buffer; caCertificate: Buffer | undefined }) {
    this.#identity = pem;
    this.#ca = pem.caCertificate ? { caCertificate: pem.caCertificate } : null;
  }

  addCaCertificateListener(listener: experimental.CaCertificateUpdateListener): void {
    process.nextTick(listener, this.#ca);
  }

  removeCaCertificateListener(): void {}

  addIdentityCertificateListener(listener: experimental.IdentityCertificateUpdateListener): void {
    process.nextTick(listener, this.#identity);
  }

  removeIdentityCertificateListener(): void {}
}
