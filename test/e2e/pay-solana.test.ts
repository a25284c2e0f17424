import { getBase58Decoder } from "@solana/kit";
import { beforeEach, expect, test } from "vitest";
import { runHereWith } from "../commands/operator-commands.ts";
import { accounts } from "../helpers/accounts.ts";
import { startFaultProxy } from "../helpers/http-proxy.ts";
import { SOLANA_NETWORK, solanaKeyBytes } from "../helpers/solana-cluster.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { PRICE, startSolanaParts, startSolanaShop } from "../parts/solana/harness.ts";

const parts = startBeforeAll(startSolanaParts);
const shop = startBeforeAll(() =>
  startSolanaShop(parts, {
    handle: ({ body }) => ({ body: Buffer.from(Buffer.from(body).toString().toUpperCase()) }),
    more: `
[[jobs]]
job_index = 2
route = "POST /capitals/{language}"
mode = "public_paid"
price = "$0.01"
answer = "result"
[[jobs]]
job_index = 3
name = "both"
mode = "public_paid"
price = "$0.02"
[[x402.accepted_tokens]]
network = "base-sepolia"
token = "USDC"
pay_to = "${accounts.payTo.address}"
jobs = ["both"]
`,
  }),
);
const seller = startBeforeAll(() => startFaultProxy({ target: shop.jobgate.x402Url }));

let key = "";
let received = 0n;
beforeEach(async () => {
  key = JSON.stringify([...(await solanaKeyBytes(2))]);
  received = (await parts.cluster.balanceOf(parts.seller, parts.mint)) ?? 0n;
  seller.clear();
  seller.forget();
});
const earned = async () => ((await parts.cluster.balanceOf(parts.seller, parts.mint)) ?? 0n) - received;

const pay = (path: string, args: readonly string[] = [], payer = key) =>
  runHereWith(["pay", `${seller.url}${path}`, "--body", "text.txt", ...args], {
    files: { "text.txt": "hello", "key.json": payer },
    env: { JOBGATE_PAYER_KEY: payer },
  });
const JOB = "/x402/jobs/1/0";

test("A key in a file of solana-keygen buys a job, whose price, network and payer are shown", async () => {
  const { code, stdout, stderr } = await pay(JOB, ["--key-file", "key.json"], key);
  expect({ code, stdout }, stderr).toEqual({ code: 0, stdout: "HELLO" });
  expect(stderr).toMatch(/^price +0\.01 USDC$/m);
  expect(stderr).toMatch(/^network +solana-devnet$/m);
  expect(stderr).toMatch(new RegExp(`^pay to +${parts.seller}$`, "m"));
  expect(stderr).toMatch(new RegExp(`^payer +${parts.payer}$`, "m"));
  expect(stderr).toMatch(new RegExp(`^transaction +${parts.cluster.landed.at(-1)?.signature}$`, "m"));
  expect(await earned()).toBe(PRICE);
});

test("A key in base58 buys a route, and prints the purchase as JSON", async () => {
  const base58 = getBase58Decoder().decode(await solanaKeyBytes(2));
  const { code, stdout, stderr } = await pay("/capitals/en", ["--json"], base58);
  expect(code, stderr).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({
    ...{ payer: parts.payer, pay_to: parts.seller, network: SOLANA_NETWORK, asset: parts.mint },
    ...{ amount: String(PRICE), amount_text: "0.01 USDC" },
    transaction: parts.cluster.landed.at(-1)?.signature,
  });
  expect(await earned()).toBe(PRICE);
});

test("A payment whose answer is lost is sent again as it was, and moves once", async () => {
  const when = ({ headers }: { headers: object }) => "payment-signature" in headers;
  seller.add({ when, times: 1, fault: { kind: "lose-answer" } });
  expect(await pay(JOB)).toMatchObject({ code: 0, stdout: "HELLO" });
  const payments = seller.requests.flatMap(({ headers }) => headers["payment-signature"] ?? []);
  expect([payments.length, new Set(payments).size]).toEqual([2, 1]);
  expect(await earned()).toBe(PRICE);
});

test("Nothing is signed above --max, and on no other network than --network", async () => {
  expect(await pay(JOB, ["--max", "0.009"])).toMatchObject({
    ...{ code: 1, stdout: "" },
    stderr: "The job costs 0.01 USDC, which is more than --max 0.009\n",
  });
  expect(await pay(JOB, ["--network", "solana"])).toMatchObject({
    ...{ code: 1, stdout: "" },
    stderr: "The job is not offered on solana; expected one of solana-devnet\n",
  });
  expect(seller.requests.some(({ headers }) => "payment-signature" in headers)).toBe(false);
  expect(await earned()).toBe(0n);
  expect(await pay(JOB, ["--max", "0.01", "--network", "solana-devnet"])).toMatchObject({ code: 0 });
});

test("A job that is sold on several networks is paid on the network of the key", async () => {
  expect((await pay("/x402/jobs/1/3")).stderr).toMatch(/^network +solana-devnet$/m);
  expect(await earned()).toBe(2n * PRICE);
  const other = await pay("/x402/jobs/1/3", ["--network", "base-sepolia"]);
  expect(other).toMatchObject({
    code: 1,
    stderr: `The job is sold on base-sepolia, and the key is of ${parts.payer}, which is not an account there; expected a key for that network\n`,
  });
  const byEvm = await pay(JOB, [], accounts.payer.privateKey);
  expect(byEvm).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(
      /^The job is sold on solana-devnet, and the key is of 0x\w{40}, which is not/,
    ),
  });
});

test("A wrong key is refused before anything is sent, and none of its bytes are printed", async () => {
  const cut = JSON.stringify(JSON.parse(key).slice(32));
  expect(await pay(JOB, [], cut)).toMatchObject({
    code: 1,
    stderr: "environment variable JOBGATE_PAYER_KEY is a JSON array of 32 values; expected 64 numbers\n",
  });
  expect(await pay(JOB, ["--key-file", "key.json"], "hello")).toMatchObject({
    code: 1,
    stderr:
      "key.json does not hold a private key; expected 32 bytes in hex, or a key of Solana: 64 bytes in base58, or as the JSON array that solana-keygen writes\n",
  });
  expect(seller.requests).toEqual([]);
});

test("An offer without a blockhash, or in an unknown token, is paid with --rpc-url alone", async () => {
  const change = (edit: (offer: { asset: string; extra: Record<string, unknown> }) => void) =>
    seller.add({
      when: ({ headers }) => !("payment-signature" in headers),
      fault: {
        kind: "change",
        change(answer) {
          const header = answer.headers["payment-required"];
          if (typeof header !== "string") return answer;
          const required = JSON.parse(Buffer.from(header, "base64").toString());
          for (const offer of required.accepts) edit(offer);
          const encoded = Buffer.from(JSON.stringify(required)).toString("base64");
          return { ...answer, headers: { ...answer.headers, "payment-required": encoded } };
        },
      },
    });
  change(({ extra }) => {
    delete extra.recentBlockhash;
  });
  expect(await pay(JOB)).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(
      /^The offer cannot be paid: it takes --rpc-url to read a blockhash, which the/m,
    ),
  });
  expect(await pay(JOB, ["--rpc-url", parts.cluster.rpcUrl])).toMatchObject({ code: 0, stdout: "HELLO" });

  seller.clear();
  const mint = await parts.cluster.createMint({ decimals: 9 });
  change((offer) => {
    offer.asset = mint;
  });
  expect((await pay(JOB)).stderr).toMatch(
    /^The offer cannot be paid: it takes --rpc-url to read the decimals of /m,
  );
  // It is signed, and then refused: the seller offered another token.
  const { stderr } = await pay(JOB, ["--rpc-url", parts.cluster.rpcUrl]);
  expect(stderr).toMatch(new RegExp(`^price +10000 base units of ${mint}$`, "m"));
  expect(stderr).toMatch(/^402: payment_mismatch: /m);
  expect(await earned()).toBe(PRICE);
});

test.each([
  ["-18446744073709541616", "its amount is not a whole number"],
  ["18446744073709561616", "18446744073709561616 is not a number of 8 bytes"],
])("An amount that a transaction would hold as another one is never signed: %s", async (amount, reason) => {
  seller.add({
    fault: {
      kind: "change",
      change(answer) {
        const header = String(answer.headers["payment-required"]);
        const required = JSON.parse(Buffer.from(header, "base64").toString());
        for (const offer of required.accepts) offer.amount = amount;
        const encoded = Buffer.from(JSON.stringify(required)).toString("base64");
        return { ...answer, headers: { ...answer.headers, "payment-required": encoded } };
      },
    },
  });
  expect((await pay(JOB)).stderr).toMatch(new RegExp(`^The offer cannot be paid: ${reason}$`, "m"));
  expect(seller.requests.some(({ headers }) => "payment-signature" in headers)).toBe(false);
});
