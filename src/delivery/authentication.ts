import { ServerInterceptingCall, type ServerInterceptor, status } from "@grpc/grpc-js";
import { equalInConstantTime } from "../core/constant-time.ts";

export interface AuthenticationOptions {
  /** Bearer token that every call must carry; undefined: none is asked for. */
  readonly token: string | undefined;
  /** Whether the connection must have shown a certificate that the client CA signed. */
  readonly clientCertificate: boolean;
}

/** Health stays open: probes have no credentials. */
const OPEN_METHODS = "/grpc.health.v1.Health/";

/** Answers UNAUTHENTICATED before a request's message is read, whatever the method. */
export function createAuthentication({ token, clientCertificate }: AuthenticationOptions): ServerInterceptor {
  return (method, call) => {
    if (method.path.startsWith(OPEN_METHODS)) return new ServerInterceptingCall(call);
    return new ServerInterceptingCall(call, {
      start(next) {
        next({
          onReceiveMetadata(metadata, proceed) {
            if (clientCertificate && call.getAuthContext().sslPeerCertificate === undefined) {
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
