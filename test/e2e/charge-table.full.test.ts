import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { decodePaymentRequiredHeader } from "@x402/core/http";
import type { PaymentRequiredV1 } from "@x402/core/types/v1";
import { describe, expect, it } from "vitest";
import type { ChargeKind } from "../../src/core/payment.ts";
import type { JobCall } from "../../src/gen/jobgate/v1/runner_pb.ts";
import { Fail } from "../../src/runner/job.ts";
import { accounts } from "../helpers/accounts.ts";
import { signMeteredPayment, signV1Payment, signV2Payment } from "../helpers/clients.ts";
import { listenHttp } from "../helpers/http-listener.ts";
import { readChallenges, signChallenge } from "../helpers/mpp.ts";
import { invalidatePermit2Nonce } from "../helpers/permit2.ts";
import type { JobOutcome } from "../helpers/runner.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { newPayer, startMeteredParts } from "./metered.ts";
import { withPermit2 } from "./paid-config.ts";
import { startPaidGateway } from "./paid-gateway.ts";
import { AMOUNT } from "./paid-parts.ts";

const CHARGES = ["before", "after", "used"] as const;
const DOCS = new URL("../../docs/", import.meta.url);

/** A payment that is refused when it is settled. */
const REFUSED = "refused";
type Row = readonly [outcome: string, paths: readonly string[]];

/** Rows of the tables in docs, by the outcomes that each row is about, as the last segment of a path. */
const OF_APIS: readonly Row[] = [
  ["2xx", ["200", "201", "204", "quarter"]],
  ["304", ["304"]],
  ["another 3xx, 4xx, 5xx", ["302", "404", "422", "500", "503"]],
  ["401, 402, 407: 502 `api_refused`", ["401", "402", "407"]],
  ["nothing, as no connection is possible: 502 `api_unreachable`", ["unreachable"]],
  ["nothing for `timeout_secs`, or only a part in time: 504 `api_timeout`", ["hangs"]],
  ["an answer that is too large: 502 `result_too_large`", ["large"]],
  ["a part of an answer: 502 `api_broke_off`", ["part"]],
  ["no answer on a connection that broke: 502 `outcome_unknown`", ["dies"]],
  ["a charge that cannot be made: 502 `invalid_charge`", ["excess"]],
  ["any answer, but the payment is refused when it is settled: 402 `settlement_failed`", [REFUSED]],
];
const OF_RUNNERS: readonly Row[] = [
  ["a result, with a status below 300 if it has one", ["200", "201", "quarter"]],
  ["a result with another status", ["302", "404", "500"]],
  ["nothing: the job is a dead letter", ["fails"]],
  ["any end, but the payment is refused when it is settled: 402 `settlement_failed`", [REFUSED]],
];

/** The answer of the API, or what a runner does, by the outcome that a path asks for. */
function answerOf(outcome: string): { status: number; charge?: string } {
  if (outcome === "quarter") return { status: 200, charge: "25%" };
  if (outcome === "excess") return { status: 200, charge: "101%" };
  return { status: outcome === REFUSED ? 200 : Number(outcome) };
}

/** An API that knows nothing of payments. */
function answer({ url = "" }: IncomingMessage, response: ServerResponse): unknown {
  const outcome = url.split("/").at(-1) ?? "";
  if (outcome === "hangs") return undefined;
  if (outcome === "dies") return response.destroy();
  if (outcome === "large") return response.end(Buffer.alloc(5_000));
  if (outcome === "part")
    return response.writeHead(200, { "content-length": 9 }).write("part", () => response.destroy());
  const { status, charge } = answerOf(outcome);
  if (charge !== undefined) response.setHeader("x-charge", charge);
  return response.writeHead(status, { "content-type": "text/plain" }).end(outcome);
}

/** A target that JobCalls are pushed to. */
function answerPushed({ headers }: IncomingMessage, response: ServerResponse): void {
  const outcome = String(headers["x-http-param-outcome"]);
  if (outcome === "fails") return void response.writeHead(422).end("no ink");
  response
    .writeHead(200, { "x-jobgate-status": answerOf(outcome).status, "content-type": "text/plain" })
    .end(outcome);
}

function run({ metadata }: JobCall): JobOutcome {
  const outcome = metadata["X-HTTP-PARAM-OUTCOME"] ?? "";
  if (outcome === "fails") throw new Fail("no ink");
  const { status, charge } = answerOf(outcome);
  const isNamed = charge !== undefined && metadata["X-X402-PAYMENT-SCHEME"] === "upto";
  return { body: Buffer.from(outcome), status, ...(isNamed ? { charge: AMOUNT / 4n } : {}) };
}

const api = startBeforeAll(() => listenHttp({ handler: answer }));
const target = startBeforeAll(() => listenHttp({ handler: answerPushed }));
const closedUrl = startBeforeAll(async () => {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  server.close();
  return { url: `http://127.0.0.1:${port}`, stop: async () => {} };
});

type Kind = "apis" | "grpc" | "push";
const INDEXES: Readonly<Record<Kind, number>> = { apis: 10, grpc: 20, push: 30 };
const indexOf = (kind: Kind, charge: ChargeKind) =>
  INDEXES[kind] + CHARGES.indexOf(charge as (typeof CHARGES)[number]);

const parts = startBeforeAll(startMeteredParts);
const gateway = startBeforeAll(() => {
  const apiOf = (name: string, url: string) => `
[[apis]]
name = "${name}"
url = "${url}"
timeout_secs = 1
forward_headers = ["if-none-match"]
uncharged_per_minute = 100_000
`;
  const jobOf = (route: string, more: string) => `
[[jobs]]
route = "${route}"
mode = "public_paid"
price_wei = "1000000000000000"
max_result_bytes = 4_096
${more}
`;
  const jobs = CHARGES.flatMap((charge) => [
    jobOf(`GET /apis/${charge}/{outcome}`, `charge = "${charge}"\napi = "answers"\nidempotent = false`),
    jobOf(`GET /apis/${charge}/unreachable`, `charge = "${charge}"\napi = "none"`),
    ...(["grpc", "push"] as const).map((kind) =>
      jobOf(
        `GET /${kind}/${charge}/{outcome}`,
        `charge = "${charge}"\nanswer = "result"\njob_index = ${indexOf(kind, charge)}`,
      ),
    ),
  ]);
  const pushed = CHARGES.map((charge) => indexOf("push", charge));
  return startPaidGateway({
    parts,
    setUp: "rpc_url",
    handle: run,
    jobIds: CHARGES.map((charge) => BigInt(indexOf("grpc", charge))),
    edit: (config) =>
      [
        withPermit2(config),
        apiOf("answers", api.url),
        apiOf("none", closedUrl.url),
        ...jobs,
        `[[push]]\nurl = "${target.url}"\njob_ids = [${pushed.join(", ")}]\n`,
      ].join("\n"),
  });
});

/** Header to which 304 is an answer. */
const CONDITION = { "if-none-match": '"seen"' };
/** Protocols by which a job with such a charge can be paid. */
const PROTOCOLS = { before: ["v2", "v1", "MPP"], after: ["v2", "v1", "MPP"], used: ["v2"] } as const;
type Protocol = "v2" | "v1" | "MPP";

/** Signs a payment for a request. @returns its headers, and what makes its settlement impossible */
async function sign(url: string, charge: ChargeKind, protocol: Protocol) {
  // A payer whose charge was refused can buy only what is charged before.
  const account = url.endsWith(REFUSED) ? await newPayer(parts) : accounts.payer;
  const asked = await fetch(url, { headers: CONDITION });
  const v2 = decodePaymentRequiredHeader(asked.headers.get("payment-required") ?? "");
  if (charge === "used") {
    const { headers, permit } = await signMeteredPayment({ offer: v2, account });
    return { headers, cancel: () => invalidatePermit2Nonce(parts.anvil, account, permit.nonce) };
  }
  const challenge = readChallenges(asked.headers.get("www-authenticate") ?? "")[0];
  if (challenge === undefined) throw new Error(`no challenge from ${url}`);
  const v1 = (await asked.json()) as PaymentRequiredV1;
  const { headers, signed } =
    protocol === "MPP"
      ? await signChallenge({ challenge, account })
      : protocol === "v1"
        ? await signV1Payment({ offer: v1, account })
        : await signV2Payment({ offer: v2, account });
  return { headers, cancel: () => parts.usdc.cancelAuthorization(account, signed.authorization.nonce) };
}

/** Buys at a path, sends the payment again, and returns what moved. */
async function paidAt(path: string, charge: ChargeKind, protocol: Protocol): Promise<bigint> {
  const url = `${gateway.jobgate.x402Url}${path}`;
  const isRefused = path.endsWith(REFUSED);
  const received = () => parts.usdc.balanceOf(accounts.payTo.address);
  const before = await received();
  const { headers, cancel } = await sign(url, charge, protocol);
  const send = async () => {
    const response = await fetch(url, {
      redirect: "manual",
      headers: { ...headers, ...CONDITION },
    });
    const body = await response.text();
    // A refused payment is answered in other words when it is sent again, with a new offer.
    return { status: response.status, body: isRefused ? (JSON.parse(body) as { code: string }).code : body };
  };
  const settling = isRefused ? gateway.duringSettle(cancel) : undefined;
  const first = await send();
  await settling;
  const moved = (await received()) - before;
  expect(await send(), `${path} by ${protocol}, sent again`).toEqual(first);
  expect((await received()) - before).toBe(moved);
  return moved;
}

/** Reads the rows of the table in a page of docs whose header ends with the names of the charges. */
async function tableIn(page: string): Promise<ReadonlyMap<string, readonly string[]>> {
  const lines = (await readFile(new URL(page, DOCS), "utf8")).split("\n");
  const start = lines.findIndex((line) => line.endsWith("| `before` | `after` | `used` |"));
  const end = lines.findIndex((line, index) => index > start && !line.startsWith("|"));
  const rows = lines.slice(start + 2, end).map((line) =>
    line
      .split("|")
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
  return new Map(rows.map(([outcome = "", ...cells]) => [outcome, cells]));
}

/** Returns the amount that a cell says is charged. */
function amountOf(cell: string, outcome: string): bigint {
  if (/^nothing/.test(cell)) return 0n;
  if (/^(the price is )?(paid|charged)/.test(cell)) return AMOUNT;
  if (/^what .*ceiling$/.test(cell)) return outcome === "quarter" ? AMOUNT / 4n : AMOUNT;
  throw new Error(`expected what is charged, got "${cell}"`);
}

describe.each([
  ["apis", "selling-an-api.md", OF_APIS],
  ["grpc", "paying-for-what-was-done.md", OF_RUNNERS],
  ["push", "paying-for-what-was-done.md", OF_RUNNERS],
] as const)("A job of the kind %s", (kind, page, rows) => {
  it("has a row in the table for each outcome", async () => {
    expect([...(await tableIn(page)).keys()]).toEqual(rows.map(([outcome]) => outcome));
  });

  it.each(rows)("is charged as the table says if it answers: %s", async (row, outcomes) => {
    const cells = (await tableIn(page)).get(row) ?? [];
    expect(cells).toHaveLength(CHARGES.length);
    for (const [index, charge] of CHARGES.entries()) {
      const cell = cells[index] ?? "";
      if (cell === "") continue;
      for (const [nth, outcome] of outcomes.entries()) {
        // Only the library of runners names charges: a pushed job is charged its ceiling.
        if (outcome === "quarter" && kind === "push") continue;
        // The protocols differ in how they pay and not in what is charged: one outcome shows it for all.
        for (const protocol of nth === 0 ? PROTOCOLS[charge] : PROTOCOLS.used) {
          const path = `/${kind}/${charge}/${outcome}`;
          const moved = await paidAt(path, charge, protocol);
          expect([path, protocol, moved]).toEqual([path, protocol, amountOf(cell, outcome)]);
        }
      }
    }
  });
});
