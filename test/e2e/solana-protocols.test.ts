import type { PaymentPayload, PaymentRequired, PaymentRequirements } from "@x402/core/types";
import { describe, expect, it } from "vitest";
import { loadFiles } from "../config/config-folder.ts";
import { sendRpc } from "../helpers/mcp.ts";
import { readChallenges } from "../helpers/mpp.ts";
import { SOLANA_NETWORK } from "../helpers/solana-cluster.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { PRICE, signOffers, startSolanaParts, startSolanaShop, tokenTable } from "../parts/solana/harness.ts";
import { MPP_KEY } from "./paid-config.ts";

const EVM = "eip155:84532";
const NOBODY = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
const MPP = `
[mcp]
enabled = true
[x402.mpp]
realm = "jobgate.example"
secret_key = "${MPP_KEY}"
`;
/** The index of a job that only permitted callers buy. */
const RESTRICTED = 2;
const EVM_TOKEN = `
[[x402.accepted_tokens]]
network = "base-sepolia"
token = "USDC"
pay_to = "${NOBODY}"
`;
const RESTRICTED_JOB = `
[[jobs]]
job_index = ${RESTRICTED}
mode = "restricted_paid"
price = "$0.01"
auth_mode = "payer_is_caller"
chain_rpc_url = "http://127.0.0.1:1"
chain_contract = "${NOBODY}"
`;

const parts = startBeforeAll(startSolanaParts);
const onlySolana = startBeforeAll(() => startSolanaShop(parts, { more: MPP }));
const both = startBeforeAll(() =>
  startSolanaShop(parts, {
    more: `${MPP}${EVM_TOKEN}${RESTRICTED_JOB}`,
  }),
);

const buy = (meta: object) =>
  sendRpc(`${onlySolana.jobgate.x402Url}/mcp`, "tools/call", {
    name: "job-1-0",
    arguments: { body: "by a tool" },
    _meta: meta,
  });

describe("Over MCP", () => {
  it("a tool is paid once with the transaction that the official client signs for its offers", async () => {
    const { cluster, seller, mint, payer } = parts;
    const before = (await cluster.balanceOf(seller, mint)) ?? 0n;
    const { result } = await buy({});
    expect(result?.isError).toBe(true);
    const payment = await signOffers(cluster, result?.structuredContent as unknown as PaymentRequired);
    const bought = await buy({ "x402/payment": payment });
    const transaction = cluster.landed.at(-1)?.signature;
    expect(bought.result).toMatchObject({
      _meta: { "x402/payment-response": { success: true, network: SOLANA_NETWORK, payer, transaction } },
    });
    const again = await buy({ "x402/payment": payment });
    expect(again.result?._meta).toMatchObject({ "x402/payment-response": { transaction } });
    expect(onlySolana.runner.calls.length).toBe(1);
    expect(await cluster.balanceOf(seller, mint)).toBe(before + PRICE);
  });
});

describe("Over MPP, which has no payment of jobgate's on Solana", () => {
  const ask = async (url: string) => {
    const response = await fetch(url, { method: "POST", body: "work" });
    return {
      status: response.status,
      challenges: readChallenges(response.headers.get("www-authenticate") ?? ""),
    };
  };

  it("a job that is sold on Solana alone has no challenge", async () => {
    const { x402Url } = onlySolana.jobgate;
    expect(await ask(`${x402Url}/x402/jobs/1/0`)).toEqual({ status: 402, challenges: [] });
    expect(await ask(`${x402Url}/mpp/jobs/1/0`)).toEqual({ status: 402, challenges: [] });
    for (const path of ["/llms.txt", "/openapi.json", "/x402/jobs"])
      expect(await (await fetch(x402Url + path)).text()).not.toContain("mpp");
  });

  it("a job that is also sold on an EVM chain has the challenge of this chain alone", async () => {
    const { x402Url } = both.jobgate;
    for (const path of ["/x402/jobs/1/0", "/mpp/jobs/1/0"]) {
      const { challenges } = await ask(x402Url + path);
      const asked = challenges.map(({ request }) => JSON.parse(Buffer.from(request, "base64url").toString()));
      expect(asked).toMatchObject([{ recipient: NOBODY, methodDetails: { decimals: 6 } }]);
    }
  });

  it("a configuration without a token on an EVM chain has a warning", async () => {
    const warnings = async (more: string) => {
      const gateway =
        'service_id = 1\n[x402]\npublic_url = "http://127.0.0.1:1"\nfacilitator_url = "http://127.0.0.1:1"\n';
      const result = await loadFiles(`${gateway}${tokenTable(parts)}${more}`);
      return result.ok ? result.warnings.map(({ message }) => message) : result.mistakes;
    };
    const message = "makes no challenge, because no accepted token is on an EVM chain";
    expect(await warnings(MPP)).toContain(message);
    expect(await warnings(MPP + EVM_TOKEN)).not.toContain(message);
    expect(await warnings("")).not.toContain(message);
  });

  it.each(["/x402/jobs/1/0", "/mpp/jobs/1/0"])(
    "a transaction of Solana in a credential is refused: %s",
    async (path) => {
      const landed = parts.cluster.landed.length;
      const [challenge] = (await ask(both.jobgate.x402Url + path)).challenges;
      const { payload } = await both.sign();
      const v1 = { x402Version: 1, scheme: "exact", network: "solana-devnet", payload };
      const x402_payload = Buffer.from(JSON.stringify(v1)).toString("base64url");
      for (const [credential, status, code] of [
        [{ challenge: { ...challenge, method: "solana" }, payload }, 400, "invalid_payment"],
        [{ challenge, payload: { type: "transaction", ...payload } }, 402, "malformed_credential"],
        [{ challenge, payload: { x402_payload } }, 402, "malformed_credential"],
      ]) {
        const authorization = `Payment ${Buffer.from(JSON.stringify(credential)).toString("base64url")}`;
        const request = { method: "POST", body: "work", headers: { authorization } };
        const response = await fetch(both.jobgate.x402Url + path, request);
        expect(response.status).toBe(status);
        expect(await response.json()).toMatchObject({ code, charged: false });
      }
      expect(parts.cluster.landed.length).toBe(landed);
      expect(both.runner.calls).toEqual([]);
    },
  );
});

describe("A restricted job", () => {
  const offersOf = async (job: number): Promise<readonly PaymentRequirements[]> =>
    (await both.offers(job)).accepts;

  it("is not offered on Solana, whose accounts no contract permits", async () => {
    expect((await offersOf(0)).map(({ network }) => network).toSorted()).toEqual([EVM, SOLANA_NETWORK]);
    expect((await offersOf(RESTRICTED)).map(({ network }) => network)).toEqual([EVM]);
  });

  it("is not sold for a payment on Solana that was signed for another job", async () => {
    const landed = parts.cluster.landed.length;
    const payment: PaymentPayload = await both.sign();
    expect(await both.send(payment, { job: RESTRICTED })).toMatchObject({
      status: 402,
      code: "payment_mismatch",
      charged: false,
    });
    expect(parts.cluster.landed.length).toBe(landed);
  });
});

describe("Descriptions for clients", () => {
  const read = async (path: string) => (await fetch(both.jobgate.x402Url + path)).text();

  it("have the offer on Solana of a public job, by x402 alone, and none of a restricted job", async () => {
    const { paths } = JSON.parse(await read("/openapi.json"));
    const { offers } = paths["/x402/jobs/1/0"].post["x-payment-info"];
    const isOnSolana = ({ network }: { readonly network: string }) => network === SOLANA_NETWORK;
    const [amount, asset, payTo] = [String(PRICE), parts.mint, parts.seller];
    expect(offers.filter(isOnSolana)).toMatchObject([{ method: "x402", amount, currency: asset }]);
    const { items } = JSON.parse(await read("/.well-known/x402.json"));
    expect(items[0].accepts.filter(isOnSolana)).toMatchObject([{ scheme: "exact", amount, asset, payTo }]);
    const lines = (await read("/llms.txt")).split("\n").filter((line) => line.startsWith("- [Job "));
    expect(lines.map((line) => line.includes(`0.01 USDC on ${SOLANA_NETWORK}`))).toEqual([true, true, false]);
    for (const restricted of [paths[`/x402/jobs/1/${RESTRICTED}`], items[RESTRICTED]])
      expect(JSON.stringify(restricted)).not.toContain(SOLANA_NETWORK);
  });
});
