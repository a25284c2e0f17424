import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { inDollars, type PaidGateway, startPaidGateway } from "../e2e/paid-gateway.ts";
import { startPaidParts } from "../e2e/paid-parts.ts";
import { ROOT } from "../e2e/workshop.ts";
import { newAccount, type TestAccount } from "../helpers/accounts.ts";
import { freePort } from "../helpers/free-port.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { type AppName, startApiApp } from "./api-apps.ts";
import {
  type ApiAnswer,
  type ApiRequest,
  CLIENTS,
  initOf,
  preparePythonClients,
  sendBy,
} from "./api-clients.ts";

/** Units of a cent. */
const CENT = 10_000n;

/** A request, and what its buyer gets. */
interface Row extends ApiRequest {
  readonly status: number;
  /** Cents. */
  readonly charged: number;
  /** Default: what the app itself answers. */
  readonly body?: RegExp;
  /** The gateway knows no such route. */
  readonly isSold?: false;
  /** Path that `Location` leads to. */
  readonly location?: RegExp;
}

const FORM = { name: "a.txt", text: "content of a file", title: "a title" };

const ROWS: Readonly<Record<string, Row>> = {
  "GET with a query": { method: "GET", path: "/weather/Paris?units=kelvin", status: 200, charged: 1 },
  "POST of JSON": {
    method: "POST",
    path: "/summaries",
    json: { text: "a long text" },
    status: 200,
    charged: 1,
  },
  "POST of a form": { method: "POST", path: "/uploads", form: FORM, status: 200, charged: 1 },
  "201 and Location": {
    ...{ method: "POST", path: "/notes", json: { text: "a note" }, status: 201, charged: 1 },
    ...{ body: /^\{"id":\d+\}$/, location: /\/notes\/\d+$/ },
  },
  "PUT and 204": { method: "PUT", path: "/notes/1", json: { text: "changed" }, status: 204, charged: 1 },
  "5 MB": { method: "GET", path: "/reports/annual.pdf", status: 200, charged: 2 },
  "304": { method: "GET", path: "/weather/Oslo", headers: { "if-none-match": "" }, status: 304, charged: 1 },
  redirect: { method: "GET", path: "/reports", status: 307, charged: 0, location: /\/reports\/$/ },
  "404": { method: "GET", path: "/weather/Atlantis", status: 404, charged: 0 },
  "422": { method: "POST", path: "/summaries", json: {}, status: 422, charged: 0 },
  "500": { method: "GET", path: "/faults/error", status: 500, charged: 0 },
  hang: { method: "GET", path: "/faults/hang", status: 504, charged: 0, body: /"code":"api_timeout"/ },
  death: { method: "GET", path: "/faults/death", status: 502, charged: 0, body: /"code":"api_broke_off"/ },
  "not sold": {
    method: "GET",
    path: "/docs",
    status: 404,
    charged: 0,
    isSold: false,
    body: /"code":"not_found"/,
  },
};

/** A tool has no form, and what is not sold is no tool. */
const isForTools = ({ form, isSold }: Row) => form === undefined && isSold !== false;

beforeAll(preparePythonClients);
const payers = new Map(CLIENTS.map((client) => [client, newAccount()]));
const parts = startBeforeAll(() => startPaidParts({ payers: [...payers.values()] }));
/** Outcomes by request, of each client and app in turn. */
const table = new Map<string, string[]>();
afterAll(() => {
  for (const [name, outcomes] of table) console.log(`| ${name} | ${outcomes.join(" | ")} |`);
});

describe.each(["express", "fastapi"] as const)("The routes of an app of %s", (name) => {
  const app = startBeforeAll(() => startApiApp(name));
  const gateway = startBeforeAll(() => startSeller(name, app.url));

  it.concurrent.each(CLIENTS)("are bought by %s, as the app answers them", async (client) => {
    const account = payers.get(client) as TestAccount;
    const balance = () => parts.usdc.balanceOf(account.address);
    const before = await balance();
    const etag = (await fetch(`${app.url}/weather/Oslo`)).headers.get("etag") ?? "";
    const sent = Object.entries(ROWS).filter(([, row]) => client !== "mcp" || isForTools(row));
    const rows = sent.map(([, row]) =>
      row.headers === undefined ? row : { ...row, headers: { "if-none-match": etag } },
    );
    const answers = await sendBy(client, { url: gateway.jobgate.x402Url, account }, rows);
    const payments = new Map((await gateway.journal.payments()).map((payment) => [payment.callId, payment]));
    const seen: Record<string, unknown> = {};
    const expected: Record<string, unknown> = {};
    for (const [i, [title]] of sent.entries()) {
      const [row, answer] = [rows[i] as Row, answers[i] as ApiAnswer];
      const payment = payments.get(Number(answer.headers["x-call-id"]));
      // The result of a tool has no media type beside text.
      const untyped = client === "mcp" ? { type: undefined } : {};
      seen[title] = { ...shown(answer, payment?.state), ...untyped };
      expected[title] = { ...(await expectedOf(row, app.url, gateway.jobgate.x402Url)), ...untyped };
      const outcomes = table.get(title) ?? [];
      table.set(title, [...outcomes, `${client} ${answer.status} ${payment?.state ?? "unpaid"}`]);
    }
    expect(seen).toEqual(expected);
    const cents = rows.reduce((sum, { charged }) => sum + charged, 0);
    expect(before - (await balance())).toBe(BigInt(cents) * CENT);
  });
});

/** Starts a gateway that sells the routes of an example's `jobgate.toml`. */
async function startSeller(name: AppName, url: string): Promise<PaidGateway> {
  const toml = await readFile(join(ROOT, `examples/api-${name}/jobgate.toml`), "utf8");
  const routes = toml
    .slice(toml.indexOf("[[apis]]"))
    .replace(/^url = .*/m, `url = "${url}"\ntimeout_secs = 2\nuncharged_per_minute = 1000`);
  const address = `127.0.0.1:${await freePort()}`;
  return startPaidGateway({
    ...{ parts, setUp: "rpc_url", asProcess: true },
    edit: (config) =>
      inDollars(config)
        .replace('[x402]\nbind_address = "127.0.0.1:0"', `[x402]\nbind_address = "${address}"`)
        .replace("http://127.0.0.1:8402", `http://${address}`)
        .replace(/\[job_pricing[\s\S]*/, routes),
  });
}

/** ETag that jobgate gives to a result without one. */
const OWN_ETAG = /^"\d+-\d{13}"$/;

/** The parts of an answer that a test compares. */
function shown({ status, headers, body }: ApiAnswer, state: string | undefined) {
  const { location, etag, "content-type": type } = headers;
  return {
    ...{ status, location, state, isCharged: headers["x-charged"] !== "false" },
    type: body.byteLength > 0 ? type : undefined,
    etag: OWN_ETAG.test(etag ?? "") ? undefined : etag,
    body: body.byteLength > 1_000 ? createHash("sha256").update(body).digest("hex") : body.toString(),
  };
}

/** The app's own answer to a request, as it is shown, with what the row says of it. */
async function expectedOf(row: Row, app: string, gateway: string) {
  const { status, charged, body } = row;
  const state = row.isSold === false ? undefined : charged > 0 ? "settled" : "released";
  const ours = { isCharged: state !== "released", state, status };
  if (body !== undefined && status >= 400)
    return { ...ours, type: "application/json", body: expect.stringMatching(body) };
  const response = await fetchPlainly(app, row);
  const answer = {
    status,
    headers: Object.fromEntries(response.headers),
    body: Buffer.from(await response.arrayBuffer()),
  };
  const { location, etag } = answer.headers;
  return {
    ...shown(answer, state),
    ...ours,
    ...(body !== undefined && etag !== undefined && { etag: expect.any(String) }),
    ...(location !== undefined && {
      location: expect.stringMatching(new RegExp(`^(${gateway})?${row.location?.source}`)),
    }),
    ...(body !== undefined && { body: expect.stringMatching(body) }),
  };
}

/** Asks an app itself. `fetch` asks for a fresh answer under a condition, unless the request says which it takes. */
function fetchPlainly(app: string, row: Row): Promise<Response> {
  const { headers, ...init } = initOf(row);
  return fetch(`${app}${row.path}`, {
    ...{ ...init, redirect: "manual" },
    headers: { ...(row.headers && { "cache-control": "max-age=0" }), ...(headers as Record<string, string>) },
  });
}
