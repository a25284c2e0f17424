import type { IncomingHttpHeaders, ServerHttp2Stream } from "node:http2";
import { createSecureContext, TLSSocket } from "node:tls";
import {
  experimental,
  type ServerCredentials,
  ServerInterceptingCall,
  type ServerInterceptor,
  status,
} from "@grpc/grpc-js";
import type { RunnerConfig } from "../config/config.ts";
import { isAnyInConstantTime } from "../core/constant-time.ts";

/** Health needs no credentials, because probes have none. */
const OPEN_METHODS = "/grpc.health.v1.Health/";

/** Checks that calls carry a configured token, and that their connection has a certificate signed by the client CA. */
export class Authentication {
  #tokens: readonly string[];
  readonly #needsCertificate: boolean;

  constructor({ tokens, tls }: Pick<RunnerConfig, "tokens" | "tls">) {
    this.#tokens = tokens;
    this.#needsCertificate = tls?.clientCa !== undefined;
  }

  /** Replaces the accepted tokens. Open streams stay open. */
  reload(tokens: readonly string[]): void {
    this.#tokens = tokens;
  }

  /** Returns the reason why a call is refused; undefined if it is accepted. */
  refusal({ authorization }: IncomingHttpHeaders, stream: ServerHttp2Stream): string | undefined {
    return this.#refusal(authorization, () => hasCertificate(stream));
  }

  /** Answers UNAUTHENTICATED before a request's message is read, for every method. */
  readonly interceptor: ServerInterceptor = (method, call) => {
    if (method.path.startsWith(OPEN_METHODS)) return new ServerInterceptingCall(call);
    return new ServerInterceptingCall(call, {
      start: (next) => {
        next({
          onReceiveMetadata: (metadata, proceed) => {
            const details = this.#refusal(
              metadata.get("authorization").join(","),
              () => call.getAuthContext().sslPeerCertificate !== undefined,
            );
            if (details === undefined) proceed(metadata);
            else call.sendStatus({ code: status.UNAUTHENTICATED, details });
          },
        });
      },
    });
  };

  #refusal(authorization: string | undefined, isCertified: () => boolean): string | undefined {
    if (this.#needsCertificate && !isCertified()) {
      return "A client certificate that the configured client CA signed is required.";
    }
    if (this.#tokens.length > 0 && !carriesToken(authorization, this.#tokens)) {
      return "The runner's token is required: authorization: Bearer <token>.";
    }
    return undefined;
  }
}

function hasCertificate({ session }: ServerHttp2Stream): boolean {
  const socket = session?.socket;
  return socket instanceof TLSSocket && socket.authorized && socket.getPeerCertificate().raw !== undefined;
}

function carriesToken(authorization: string | undefined, tokens: readonly string[]): boolean {
  const credentials = /^bearer +(.+)$/i.exec(authorization ?? "")?.[1];
  return credentials !== undefined && isAnyInConstantTime(credentials, tokens);
}

type Tls = NonNullable<RunnerConfig["tls"]>;

/**
 * Certificates of a server that change while it runs. Connections that are opened later get the new certificates.
 *
 * With `clientCa`, a connection without a valid certificate is not cut. {@link Authentication} answers its calls, so
 * that the runner's author sees what is wrong. `ServerCredentials.createSsl` can do neither.
 */
export class ServerCertificates implements experimental.CertificateProvider {
  readonly credentials: ServerCredentials;
  #tls: Tls;
  readonly #onIdentity = new Set<experimental.IdentityCertificateUpdateListener>();
  readonly #onAuthorities = new Set<experimental.CaCertificateUpdateListener>();

  /** @throws Error if certificate, key and authorities do not match */
  constructor(tls: Tls) {
    this.#tls = checked(tls);
    const authorities = tls.clientCa === undefined ? null : this;
    this.credentials = experimental.createCertificateProviderServerCredentials(this, authorities, false);
  }

  /** @throws Error if certificate, key and authorities do not match; nothing has changed then */
  reload(tls: Tls): void {
    this.#tls = checked(tls);
    for (const listener of this.#onAuthorities) listener(this.#authorities());
    for (const listener of this.#onIdentity) listener(this.#identity());
  }

  // grpc-js adds listeners in its constructors, and expects that no listener is called before they return.

  addCaCertificateListener(listener: experimental.CaCertificateUpdateListener): void {
    this.#onAuthorities.add(listener);
    process.nextTick(() => listener(this.#authorities()));
  }

  removeCaCertificateListener(listener: experimental.CaCertificateUpdateListener): void {
    this.#onAuthorities.delete(listener);
  }

  addIdentityCertificateListener(listener: experimental.IdentityCertificateUpdateListener): void {
    this.#onIdentity.add(listener);
    process.nextTick(() => listener(this.#identity()));
  }

  removeIdentityCertificateListener(listener: experimental.IdentityCertificateUpdateListener): void {
    this.#onIdentity.delete(listener);
  }

  #identity(): experimental.IdentityCertificateUpdate {
    const { cert, key } = this.#tls;
    return { certificate: Buffer.from(cert), privateKey: Buffer.from(key) };
  }

  #authorities(): experimental.CaCertificateUpdate | null {
    const { clientCa } = this.#tls;
    return clientCa === undefined ? null : { caCertificate: Buffer.from(clientCa) };
  }
}

function checked(tls: Tls): Tls {
  createSecureContext({ cert: tls.cert, key: tls.key, ca: tls.clientCa });
  return tls;
}
