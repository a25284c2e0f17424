import { request, type ServerResponse } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { v2PaymentHeaders } from "../test/helpers/clients.ts";
import { listenHttp } from "../test/helpers/http-listener.ts";
import { type PaymentTarget, startTree } from "./gateway.ts";
import { percentile } from "./load.ts";
import { agent, askOffer, signPayments } from "./payments.ts";
import type { Tree } from "./trees.ts";

const STREAMS = 100;
const WARM_UP = 10;
/** Time until the API writes, in which a model would think. */
const THINKING_MS = 20;
const PIECE = "data: a piece\n\n";

/** Measures how much later than the API's first byte its buyer has it, beside a client of the API itself. */
export async function benchStreams(trees: readonly Tree[], payments: PaymentTarget): Promise<void> {
  let wroteAt = 0;
  const stream = async (response: ServerResponse) => {
    await sleep(THINKING_MS);
    wroteAt = performance.now();
    response.writeHead(200, { "content-type": "text/event-stream" }).write(PIECE);
    await sleep(THINKING_MS);
    response.end(PIECE);
  };
  const api = await listenHttp({ handler: (_request, response) => void stream(response) });
  const rows: object[] = [];
  const add = (name: string, late: readonly number[]) =>
    rows.push({
      "": name,
      "p50 ms": percentile(late, 0.5).toFixed(1),
      "p99 ms": percentile(late, 0.99).toFixed(1),
    });
  const lateness = async (url: string, headersOf: (turn: number) => Readonly<Record<string, string>>) => {
    const late: number[] = [];
    for (let turn = 0; turn < WARM_UP + STREAMS; turn += 1) {
      const hadAt = await firstByteAt(url, headersOf(turn));
      if (turn >= WARM_UP) late.push(hadAt - wroteAt);
    }
    return late;
  };
  try {
    add("the API itself", await lateness(`${api.url}/stream`, () => ({})));
    for (const tree of trees) {
      const edit = (config: string) => sellStream(config, api.url);
      const { jobgate } = await startTree(tree, { payments, edit });
      try {
        const url = `${jobgate.x402Url}/stream`;
        const signed = await signPayments(
          await askOffer({ url, method: "GET", status: 200 }),
          WARM_UP + STREAMS,
        );
        const late = await lateness(url, (turn) => {
          const payload = signed[turn];
          return payload === undefined ? {} : v2PaymentHeaders(payload);
        });
        add(`${tree.name}, a paid stream`, late);
      } finally {
        await jobgate.stop();
      }
    }
  } finally {
    await api.stop();
  }
  console.log(`\nFirst byte of ${STREAMS} streams at the buyer after the API wrote it, one at a time`);
  console.table(rows);
}

const sellStream = (
  config: string,
  apiUrl: string,
) => `${config.replace("[x402]\n", "[x402]\nmax_open_per_payer = 100_000\n")}
[[apis]]
name = "bench"
url = "${apiUrl}"
[[jobs]]
route = "GET /stream"
api = "bench"
price_wei = "1000000000000000"
charge = "before"
stream = true
`;

/** Reads an answer to its end. @returns when its first byte came */
function firstByteAt(url: string, headers: Readonly<Record<string, string>>): Promise<number> {
  return new Promise((resolve, reject) => {
    const sent = request(url, { agent, headers }, (response) => {
      let hadAt = 0;
      response.on("data", () => {
        hadAt ||= performance.now();
      });
      response.on("error", reject);
      response.on("end", () => {
        if (response.statusCode === 200) resolve(hadAt);
        else reject(new Error(`expected 200 of ${url}, got ${response.statusCode}`));
      });
    });
    sent.on("error", reject);
    sent.end();
  });
}
