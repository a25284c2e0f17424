import { createPublicKey, generateKeyPairSync, type KeyObject, verify } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { buffer } from "node:stream/consumers";
import { listenHttp } from "../../helpers/http-listener.ts";

/** Algorithms of the keys that Coinbase's developer platform (CDP) makes. */
export type CdpAlgorithm = "EdDSA" | "ES256";

/** A facilitator as Coinbase's: it takes a request only with a token made for it. */
export interface CdpFacilitator {
  /** With the path of the real one. */
  readonly url: string;
  readonly keyId: string;
  /** As the platform shows it. */
  readonly keySecret: string;
  /** `POST /verify`, with why it was refused. */
  readonly requests: readonly { readonly route: string; readonly refusal: string | undefined }[];
  stop(): Promise<void>;
}

const PREFIX = "/platform/v2/x402";
const MAX_LIFETIME_SECS = 120;

/** Puts Coinbase's authentication in front of another facilitator. */
export async function startCdpFacilitator(options: {
  readonly target: string;
  readonly algorithm: CdpAlgorithm;
}): Promise<CdpFacilitator> {
  const { target, algorithm } = options;
  const keyId = `organizations/1/apiKeys/${algorithm}`;
  const { keySecret, publicKey } = generateKey(algorithm);
  const usedNonces = new Set<string>();
  const requests: { route: string; refusal: string | undefined }[] = [];

  const refusalOf = (request: IncomingMessage): string | undefined => {
    const { method, url, headers } = request;
    const correlation = headers["correlation-context"];
    if (!/^sdk_version=.+,sdk_language=typescript,source=x402,source_version=.+$/.test(String(correlation))) {
      return "no correlation context";
    }
    const [, head = "", body = "", signature = ""] =
      /^Bearer ([\w-]+)\.([\w-]+)\.([\w-]+)$/.exec(headers.authorization ?? "") ?? [];
    const isSigned = verify(
      algorithm === "EdDSA" ? null : "sha256",
      Buffer.from(`${head}.${body}`),
      { key: publicKey, dsaEncoding: "ieee-p1363" },
      Buffer.from(signature, "base64url"),
    );
    if (!isSigned) return "wrong signature";
    const { alg, kid, typ, nonce } = fromBase64Url(head);
    if (alg !== algorithm || kid !== keyId || typ !== "JWT") return "wrong header";
    if (typeof nonce !== "string" || !/^[0-9a-f]{16,}$/.test(nonce) || usedNonces.has(nonce))
      return "old nonce";
    usedNonces.add(nonce);
    const { sub, iss, uris, iat, nbf, exp } = fromBase64Url(body);
    if (sub !== keyId || iss !== "cdp") return "wrong subject or issuer";
    if (JSON.stringify(uris) !== JSON.stringify([`${method} ${headers.host}${url}`]))
      return "made for another request";
    const now = Math.floor(Date.now() / 1000);
    const times = [iat, nbf, exp].map(Number);
    const [issued = Number.NaN, notBefore = Number.NaN, expires = Number.NaN] = times;
    if (!(issued <= now && notBefore <= now && now < expires)) return "not valid now";
    return expires - issued > MAX_LIFETIME_SECS ? "valid for too long" : undefined;
  };
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body = await buffer(request);
    const route = `${request.method} ${request.url?.slice(PREFIX.length)}`;
    const refusal = refusalOf(request);
    requests.push({ route, refusal });
    if (refusal !== undefined) {
      response.writeHead(401).end(JSON.stringify({ errorType: "unauthorized" }));
      return;
    }
    const init = request.method === "POST" ? { method: "POST", body } : {};
    const answer = await fetch(`${target}${request.url?.slice(PREFIX.length)}`, init);
    response.writeHead(answer.status, { "content-type": "application/json" }).end(await answer.text());
  };
  const listener = await listenHttp({
    handler: (request, response) => {
      handle(request, response).catch(() => response.destroy());
    },
  });
  return { url: `${listener.url}${PREFIX}`, keyId, keySecret, requests, stop: () => listener.stop() };
}

function generateKey(algorithm: CdpAlgorithm): { readonly keySecret: string; readonly publicKey: KeyObject } {
  if (algorithm === "ES256") {
    const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
    return { keySecret: String(privateKey.export({ format: "pem", type: "pkcs8" })), publicKey };
  }
  const { privateKey } = generateKeyPairSync("ed25519");
  const { d = "", x = "" } = privateKey.export({ format: "jwk" });
  const bytes = [d, x].map((part) => Buffer.from(part, "base64url"));
  return { keySecret: Buffer.concat(bytes).toString("base64"), publicKey: createPublicKey(privateKey) };
}

function fromBase64Url(text: string): Record<string, unknown> {
  return JSON.parse(Buffer.from(text, "base64url").toString()) as Record<string, unknown>;
}
