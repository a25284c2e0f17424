import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { type IncomingMessage, request } from "node:http";
import { buffer } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { decodePaymentRequiredHeader } from "@x402/core/http";
import { expect, it } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import { signV2Payment } from "../helpers/clients.ts";
import { listenHttp } from "../helpers/http-listener.ts";
import { startPaidGateway } from "./paid-gateway.ts";
import { startPaidParts } from "./paid-parts.ts";

const READERS = 200;
/** Purchases at a time. What is bought stays unread. */
const AT_ONCE = 20;
/** Above what the process has before: each answer is held once, not twice. */
const MAX_COST_MB = 250;
/** Time that the answers stay unread. */
const UNREAD_MS = 10_000;
const SAMPLE_EVERY_MS = 500;
const ANSWER = randomBytes(1_048_576);

async function residentMb(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  const [, kb] = /^VmRSS:\s+(\d+) kB$/m.exec(status) ?? [];
  if (kb === undefined) throw new Error(`process ${pid} has no resident memory:\n${status}`);
  return Number(kb) / 1024;
}

it(`${READERS} buyers who read 1 MiB each slowly cost less than ${MAX_COST_MB} MB of memory`, async () => {
  const api = await listenHttp({ handler: (_request, response) => response.end(ANSWER) });
  const parts = await startPaidParts();
  const gateway = await startPaidGateway({
    ...{ parts, setUp: "rpc_url", asProcess: true },
    edit: (config) => `${config.replace("[x402]\n", "[x402]\nmax_open_per_payer = 1_000\n")}
[[apis]]
name = "large"
url = "${api.url}"
concurrency = ${READERS}
[[jobs]]
route = "GET /large/{name}"
api = "large"
price_wei = "1000000000000000"
max_wait_secs = 300
`,
  });
  const { pid, x402Url } = gateway.jobgate;
  const idleMb = await residentMb(pid);
  let peakMb = idleMb;
  let isSampling = true;
  const sampling = (async () => {
    while (isSampling) {
      peakMb = Math.max(peakMb, await residentMb(pid));
      await sleep(SAMPLE_EVERY_MS);
    }
  })();
  try {
    const validBefore = String((await parts.chainTimeSecs()) + 350);
    /** Buys, and reads nothing but the head of the answer. */
    const buy = async (): Promise<IncomingMessage> => {
      const url = `${x402Url}/large/any`;
      const asked = await fetch(url);
      const offer = decodePaymentRequiredHeader(asked.headers.get("payment-required") ?? "");
      const { headers } = await signV2Payment({
        account: accounts.payer,
        authorization: { validBefore },
        offer,
      });
      return new Promise((resolve, reject) => {
        request(url, { headers, agent: false }, resolve).once("error", reject).end();
      });
    };
    const answers: IncomingMessage[] = [];
    while (answers.length < READERS)
      answers.push(...(await Promise.all(Array.from({ length: AT_ONCE }, buy))));
    expect(new Set(answers.map(({ statusCode }) => statusCode))).toEqual(new Set([200]));
    await sleep(UNREAD_MS);
    for (const answer of answers) expect((await buffer(answer)).equals(ANSWER)).toBe(true);
  } finally {
    isSampling = false;
    await sampling;
    await gateway.stop();
    await Promise.all([api.stop(), parts.stop()]);
  }
  console.info(
    `${READERS} slow readers: at most ${Math.round(peakMb - idleMb)} MB more than ${Math.round(idleMb)} MB`,
  );
  expect(peakMb - idleMb).toBeLessThan(MAX_COST_MB);
});
