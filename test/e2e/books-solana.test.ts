import { beforeEach, expect, it, onTestFinished, vi } from "vitest";
import { callJson } from "../helpers/operator.ts";
import { SOLANA_NETWORK } from "../helpers/solana-cluster.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { until } from "../helpers/until.ts";
import { PRICE, startSolanaParts, startSolanaShop } from "../parts/solana/harness.ts";

const parts = startBeforeAll(startSolanaParts);
const shop = startBeforeAll(() => startSolanaShop(parts));

beforeEach(() => {
  // What landed before is finalized, and what lands from now on is not.
  parts.cluster.passSlots(2);
  parts.cluster.finalizedLag = 1;
  parts.cluster.passSlots(1);
});

/** Returns the movements of a call in the books. */
async function movementsOf(callId: number | undefined) {
  const { answer } = await callJson(shop.jobgate.operatorUrl, "ListMovements");
  const { movements } = answer as { readonly movements: readonly { readonly call_id: string }[] };
  return movements.filter(({ call_id }) => call_id === String(callId));
}

it("The books and the metrics have a payment on Solana, with its signature and its slot", async () => {
  const { cluster, seller, payer, mint } = parts;
  const { call_id } = await shop.send(await shop.sign());
  const { signature, slot } = cluster.landed.at(-1) ?? {};
  expect(await movementsOf(call_id)).toMatchObject([
    {
      ...{ network: SOLANA_NETWORK, transaction: signature, block: String(slot), token: "USDC", asset: mint },
      ...{ account: seller, counterparty: payer, base_units: String(PRICE), amount: "0.01" },
    },
  ]);
  const metrics = await (await fetch(`${shop.jobgate.operatorUrl}/metrics`)).text();
  const labels = `state="settled",network="${SOLANA_NETWORK}",symbol="USDC"`;
  expect(metrics).toContain(`jobgate_payments_total{${labels}} 1`);
});

it.each(["fails", "loses"] as const)(
  "The books correct a payment that %s on the fork that replaced its block",
  async (how) => {
    const { call_id } = await shop.send(await shop.sign());
    parts.cluster.fork(how);
    parts.cluster.finalizedLag = 0;
    // A lost transaction can land until its blockhash has expired.
    parts.cluster.passSlots(how === "loses" ? 500 : 0);
    const now = Date.now;
    if (how === "loses") vi.spyOn(Date, "now").mockImplementation(() => now() + 120_000);
    onTestFinished(() => void vi.restoreAllMocks());
    await until(async () => (await movementsOf(call_id)).length === 2, { waitMs: 30_000 });
    expect(await movementsOf(call_id)).toMatchObject([
      { base_units: String(PRICE) },
      { kind: "MOVEMENT_KIND_CORRECTION", base_units: `-${PRICE}`, account: parts.seller },
    ]);
    const alert = "the chain no longer has a payment whose job was sold";
    expect(
      shop.jobgate.logs.some((line) => line.includes(alert) && line.includes(`"callId":${call_id}`)),
    ).toBe(true);
  },
);
