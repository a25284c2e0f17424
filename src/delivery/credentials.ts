import { readFile } from "node:fs/promises";
import { createSecureContext } from "node:tls";
import {
  experimental,
  ServerCredentials,
  ServerInterceptingCall,
  type ServerInterceptor,
  status,
} from "@grpc/grpc-js";
import type { RunnerConfig } from "../config/config.ts";
import { equalInConstantTime } from "../core/constant-time.ts";

/** Health stays open: probes have no credentials. */
const OPEN_METHODS = "/grpc.health.v1.Health/";

/**
 * Answers UNAUTHENTICATED before a request's message is read, whatever the method, unless the call carries the
 * configured token and its connection a certificate that the client CA signed.
 */
export function createAuthentication({ token, tls }: Pick<RunnerConfig, "token" | "tls">): ServerInterceptor {
  const needsCertificate = tls?.clientCa !== undefined;
  return (method, call) => {
    if (method.path.startsWith(OPEN_METHODS)) return new ServerInterceptingCall(call);
    return new ServerInterceptingCall(call, {
      start(next) {
        next({
          onReceiveMetadata(metadata, proceed) {
            if (needsCertificate && call.getAuthContext().sslPeerCertificate === undefined) {
              refuse("A client certificate that the configured client CA signed is required.");
            } else if (token !== undefined && !carriesToken(metadata.get("authorization"), token)) {
              refuse("The runner's token is required: authorization: Bearer <token>.");
            } else {
              proceed(metadata);
            }
          },
        });
      },
    });

    function refuse(details: string): void {
      call.sendStatus({ code: status.UNAUTHENTICATED, details });
    }
  };
}

function carriesToken(authorization: readonly (string | Buffer)[], token: string): boolean {
  const [header, ...more] = authorization;
  const credentials =
    typeof header === "string" && more.length === 0 ? /^bearer +(.+)$/i.exec(header)?.[1] : undefined;
  return credentials !== undefined && equalInConstantTime(credentials, token);
}

/**
 * Reads the PEM files and checks that they fit each other. Without `tls`, the server speaks plain HTTP/2.
 *
 * With `clientCa`, a connection without a valid certificate is not cut: {@link createAuthentication} answers its calls,
 * so that the runner's author sees what is wrong. `ServerCredentials.createSsl` cannot do that.
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

/** Certificates that never change. Calls listeners in a later tick, because grpc-js adds them in its constructor. */
class PemFiles implements experimental.CertificateProvider {
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
