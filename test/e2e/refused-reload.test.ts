import { randomBytes } from "node:crypto";
import { status as grpc } from "@grpc/grpc-js";
import { expect, onTestFinished, test } from "vitest";
import { GatewayError } from "../../src/core/errors.ts";
import type { CallbackEndpoint } from "../../src/parts/callbacks/store/ledger.ts";
import { CALLBACKS } from "../../src/parts/callbacks/store/module.ts";
import { TOKEN, X402 } from "../config/config-folder.ts";
import { startEmbeddedJobgate } from "../helpers/embedded-jobgate.ts";
import { eventually } from "../helpers/eventually.ts";
import { callJson } from "../helpers/operator.ts";
import { makeRunnerClient } from "../helpers/runner-client.ts";

const REFUSAL = "nothing was changed";
const TOKENS = ["old", "new"];
const KEYS = TOKENS.map(() => `whsk_${randomBytes(32).toString("base64")}`);

/** A configuration of which nothing stays as it is in the other one. */
const configOf = (name: "old" | "new") => {
  const isNew = name === "new";
  return `service_id = 1
callback_key = "${KEYS[TOKENS.indexOf(name)]}"
[runner]
bind_address = "127.0.0.1:0"
token = "${name}"
[operator]
bind_address = "127.0.0.1:0"
token = "${name}"
[webhooks]
bind_address = "127.0.0.1:0"
[[webhooks.endpoints]]
path = "/hooks/${name}"
job_id = 3
[[push]]
url = "http://127.0.0.1:${isNew ? 2 : 1}/"
[[callbacks]]
url = "http://127.0.0.1:1/${name}"
events = ["dead_letter"]
${isNew ? "[mcp]\nenabled = true\n" : ""}${X402}bind_address = "127.0.0.1:0"
${TOKEN}
[[jobs]]
job_index = 0
name = "${name}"
mode = "public_paid"
price_wei = "${isNew ? 2 : 1}000000000000000"
`;
};

test("A reload that the store cannot write changes nothing, and the next one changes everything", async () => {
  let isBroken = false;
  let urlsGiven = 0;
  const jobgate = await startEmbeddedJobgate({
    config: configOf("old"),
    wrapStore: (store) => ({
      ...store,
      useUrl: async () => void urlsGiven++,
      of(module) {
        const methods = store.of(module);
        if ((module as unknown) !== CALLBACKS) return methods;
        return Object.assign({}, methods, {
          async useCallbackEndpoints(endpoints: readonly CallbackEndpoint[]) {
            if (isBroken) throw new GatewayError("store_unavailable", REFUSAL);
            await store.of(CALLBACKS).useCallbackEndpoints(endpoints);
          },
        });
      },
    }),
  });
  onTestFinished(async () => void (await jobgate.stop()));

  async function runnerToken(token: string) {
    const runner = makeRunnerClient({ address: jobgate.runnerAddress, token });
    const code = await runner.ack({}).then(
      () => grpc.OK,
      (error: { code: number }) => error.code,
    );
    runner.close();
    return code !== grpc.UNAUTHENTICATED;
  }
  /** Reads which of the two configurations each key in use comes from. */
  async function inUse() {
    const operatorTokens: string[] = [];
    const runnerTokens: string[] = [];
    const paths: string[] = [];
    for (const token of TOKENS) {
      const headers = { authorization: `Bearer ${token}` };
      if ((await fetch(`${jobgate.operatorUrl}/metrics`, { headers })).ok) operatorTokens.push(token);
      if (await runnerToken(token)) runnerTokens.push(token);
      const hook = await fetch(`${jobgate.webhooksUrl}/hooks/${token}`, { method: "POST", body: "x" });
      if (hook.status === 202) paths.push(token);
    }
    const headers = { authorization: `Bearer ${operatorTokens[0]}` };
    const operator = (method: string) => callJson(jobgate.operatorUrl, method, {}, headers);
    const shown = (await operator("GetConfiguration")).answer.configuration as {
      jobs: { name: string }[];
      push: { url: string }[];
    };
    const { runners } = (await operator("ListRunners")).answer as { runners: { subscriber: string }[] };
    const price = await (await fetch(`${jobgate.x402Url}/x402/jobs/1/0/price`)).json();
    const keys = await (await fetch(`${jobgate.x402Url}/.well-known/jobgate-keys.json`)).text();
    return {
      operatorTokens,
      runnerTokens,
      paths,
      shown: [shown.jobs.map(({ name }) => name), shown.push.map(({ url }) => url)],
      pushedTo: runners.map(({ subscriber }) => subscriber),
      price,
      keys,
      mcp: (await fetch(`${jobgate.x402Url}/mcp`, { method: "POST" })).status,
    };
  }
  const logged = (text: string) =>
    eventually(() => expect(jobgate.logs.some((line) => line.includes(text))).toBe(true));

  const before = await inUse();
  expect(before).toMatchObject({ operatorTokens: ["old"], runnerTokens: ["old"], paths: ["old"], mcp: 404 });
  isBroken = true;
  await jobgate.reload(configOf("new"));
  await logged(REFUSAL);
  expect(await inUse()).toEqual(before);
  // The new URL, and then the one in use again.
  expect(urlsGiven).toBe(2);

  isBroken = false;
  await jobgate.reload(configOf("new"));
  await logged("configuration reloaded");
  const after = await inUse();
  expect(after).toMatchObject({ operatorTokens: ["new"], runnerTokens: ["new"], paths: ["new"] });
  for (const [what, value] of Object.entries(before))
    expect(after[what as keyof typeof after], what).not.toEqual(value);
});
