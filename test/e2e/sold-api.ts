import { createHash } from "node:crypto";
import type { ServerResponse } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { listenHttp } from "../helpers/http-listener.ts";

/** Ways in which the API answers, by the first segment of the path. */
export const KINDS = [
  "ok",
  "created",
  "large",
  "unchanged",
  "moved",
  "missing",
  "broken",
  "cut",
  "late",
  "dead",
  "unpaid",
] as const;
export type Kind = (typeof KINDS)[number];

/** More than one chunk of a stored result. */
const LARGE_BYTES = 600_000;
/** Time in which jobgate gives a call up. */
export const API_TIMEOUT_SECS = 1;

/** Job at a route of the API `weather`, whose call is accepted before the API does it. */
export const climateJob = (jobId: bigint) => `
[[jobs]]
job_index = ${jobId}
route = "GET /climate/{city}"
price_wei = "1000000000000000"
charge = "before"
answer = "accepted"
api = "weather"
`;

/** The API `weather`. */
export const weatherApi = (url: string) => `
[[apis]]
name = "weather"
url = "${url}"
`;

/** A request that the API got, and what it answered in full. */
export interface ApiCall {
  readonly method: string;
  readonly kind: Kind;
  /** The last segment of the path: one for each purchase. */
  readonly name: string;
  readonly attempt: number;
  /** Undefined while nothing is answered in full. */
  answer: { readonly status: number; readonly sha256: string } | undefined;
}

/** An HTTP API that knows nothing of payments, and notes what it is asked. */
export interface SoldApi {
  readonly url: string;
  readonly calls: readonly ApiCall[];
  /** Does something when the next request has arrived, or when half of its answer is out, before the rest. */
  during(step: "call" | "answer", deed: () => Promise<void>): void;
  /** Does something for each request whose buyer will not be able to pay, before its answer. */
  onUnpaid(deed: (name: string) => Promise<void>): void;
  stop(): Promise<void>;
}

export async function startSoldApi(): Promise<SoldApi> {
  const calls: ApiCall[] = [];
  const deeds = new Map<"call" | "answer", () => Promise<void>>();
  let makeUnpaid: (name: string) => Promise<void> = async () => undefined;

  async function once(step: "call" | "answer"): Promise<void> {
    const deed = deeds.get(step);
    deeds.delete(step);
    await deed?.();
  }

  async function answer(call: ApiCall, response: ServerResponse): Promise<void> {
    await once("call");
    const { kind, name } = call;
    if (kind === "unpaid") await makeUnpaid(name);
    if (kind === "dead") return void response.destroy();
    if (kind === "late") await sleep((API_TIMEOUT_SECS + 1) * 1_000, undefined, { ref: false });
    const { status, headers = {}, body } = answerOf(call);
    response.writeHead(status, { "content-type": "text/plain", ...headers });
    if (body.length > 0) {
      const half = body.subarray(0, Math.ceil(body.length / 2));
      await new Promise((resolve) => response.write(half, resolve));
    }
    if (kind === "cut") return void response.destroy();
    await once("answer");
    response.end(body.subarray(Math.ceil(body.length / 2)), () => {
      call.answer = { status, sha256: sha256Of(body) };
    });
  }

  const listener = await listenHttp({
    handler({ method = "", url = "", headers }, response) {
      const [, kind, name = ""] = url.split("/");
      const attempt = Number(headers["x-jobgate-attempt"]);
      const call: ApiCall = { method, kind: kind as Kind, name, attempt, answer: undefined };
      calls.push(call);
      answer(call, response).catch(() => response.destroy());
    },
  });
  return {
    url: listener.url,
    calls,
    during: (step, deed) => void deeds.set(step, deed),
    onUnpaid(deed) {
      makeUnpaid = deed;
    },
    stop: () => listener.stop(),
  };
}

function answerOf({ kind, name, attempt }: ApiCall): {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: Buffer;
} {
  // Each attempt has an answer of its own, so that a second call shows.
  const text = Buffer.from(`${kind} ${name} ${attempt}`);
  switch (kind) {
    case "created":
      return { status: 201, headers: { location: `/created/${name}` }, body: text };
    case "large":
      return { status: 200, body: Buffer.alloc(LARGE_BYTES, text) };
    case "unchanged":
      return { status: 304, body: Buffer.alloc(0) };
    case "moved":
      return { status: 302, headers: { location: "/elsewhere" }, body: text };
    case "missing":
      return { status: 404, body: text };
    case "broken":
      return { status: 500, body: text };
    case "ok":
    case "cut":
    case "late":
    case "dead":
    case "unpaid":
      return { status: 200, body: text };
  }
}

export function sha256Of(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}
