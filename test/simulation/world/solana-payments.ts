import { createPrivateKey, createPublicKey, sign } from "node:crypto";
import type { PaymentRequirements } from "@x402/core/types";
import { type FacilitatorConfig, toRemoteFacilitator } from "../../../src/config/facilitators.ts";
import { tokenAccountOf } from "../../../src/parts/solana/addresses.ts";
import { readTransfer } from "../../../src/parts/solana/payment.ts";
import { toBase58 } from "../../../src/parts/solana/portable/addresses.ts";
import { transferMessage, transferTransaction } from "../../../src/parts/solana/portable/transfer.ts";
import { Client } from "./client.ts";
import { LONG } from "./long-work.ts";
import type { Server, WireAnswer } from "./network.ts";
import { chargeSuccessAlone, withLateJob } from "./paid-after.ts";
import type { Customer, Part, Shop, Surroundings } from "./part.ts";
import { protocolOf } from "./protocols.ts";
import type { Signed, Terms } from "./sign-payment.ts";
import type { Simulation } from "./simulation.ts";
import { SolanaCluster } from "./solana-cluster.ts";
import { REFERENCE, solanaNode } from "./solana-node.ts";

const NUMBERS = [4, 12, 30] as const;
/** First of the numbers that these clients have. */
const FIRST = 2_100;
export const SOLANA_NETWORK = `solana:${REFERENCE}`;
const HOST = "solana-facilitator";
const MINT = "4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU";
const FEE_PAYER = addressOfKey(1);
const SELLER = addressOfKey(2);
/** Slots within which a payment is decided: three minutes at the pace of the real cluster. */
const DECIDED_WITHIN_SLOTS = 450;
const LOOK_MS = 500;
/** Number of a job that is charged after it ran. */
const LATE_JOB = 15;
/** Some transactions are sent when their blockhash has just ended. */
const MAX_LATE_MS = 130_000;
const PATIENCE_MS = 20_000;

/** Payments on Solana, whose facilitator lies, sends late and twice, and forgets what it has sent. */
export class SolanaPayments implements Part {
  readonly #cluster: SolanaCluster;
  readonly #count: number;
  readonly #commitment: "confirmed" | "finalized";
  readonly #simulation: Simulation;
  readonly servers: NonNullable<Part["servers"]>;
  readonly #hears: ((nonce: string) => void)[] = [];

  constructor(simulation: Simulation) {
    this.#simulation = simulation;
    this.#cluster = new SolanaCluster(simulation);
    this.#count = simulation.pick("clients on Solana", NUMBERS);
    this.#commitment = simulation.pick("commitment on Solana", ["confirmed", "finalized"] as const);
    this.servers = [
      { host: "cluster", server: solanaNode(simulation, this.#cluster), lossRate: 0.01 },
      { host: HOST, server: this.#facilitator(), lossRate: 0.01 },
    ];
  }

  configure({ x402, ...shop }: Shop): Shop {
    const [first] = x402.acceptedTokens;
    if (first === undefined) throw new Error("no token is taken");
    const { eip3009: _, ...rest } = first;
    const token = {
      ...{ ...rest, network: SOLANA_NETWORK, asset: MINT, payTo: SELLER, transferMethod: "solana" },
      ...{ confirmations: 1, rpcUrl: "http://cluster", commitment: this.#commitment },
    } as X402Token;
    const facilitators: FacilitatorConfig[] = [...x402.facilitators, toRemoteFacilitator(`http://${HOST}`)];
    const sold = withLateJob(x402, LATE_JOB);
    return { ...shop, x402: { ...sold, facilitators, acceptedTokens: [...x402.acceptedTokens, token] } };
  }

  isQuiet(): boolean {
    return this.#cluster.isQuiet();
  }

  customers(surroundings: Surroundings): readonly Customer[] {
    const { simulation, laws } = surroundings;
    chargeSuccessAlone(
      surroundings,
      ({ client, charge }) => client.startsWith("solana") && charge === "after",
    );
    this.#hears.push((nonce) => laws.settleAsked({ nonce }, HOST));
    laws.onCommit((committed) => {
      if (committed.operation !== "failPayment" || committed.outcome.kind !== "failed") return;
      const { key, payload } = committed.outcome.record;
      if (key.network !== SOLANA_NETWORK) return;
      const { payload: signed } = JSON.parse(payload) as { payload: { transaction: string } };
      const { messageHash, blockhash } = readTransfer(signed.transaction).transaction;
      if (this.#cluster.mayMove(messageHash, blockhash))
        simulation.break(`payment ${messageHash.slice(-6)} failed, and its money can still move`);
    });
    return Array.from({ length: this.#count }, (_, i) => {
      const name = `solana ${i}`;
      const number = FIRST + i;
      const charge = i % 3 === 2 ? "after" : "before";
      const job = charge === "after" ? LATE_JOB : 0;
      const work = i % 9 === 8 ? LONG : "work";
      return new Client(surroundings, {
        ...{ name, number, path: `/x402/jobs/1/${job}`, charge, payer: addressOfKey(number) },
        body: `${name}: ${charge === "after" ? work : "work"}`,
        protocol: protocolOf(surroundings, { name, paysOverMpp: false }),
        takes: ({ network, extra }) => network === SOLANA_NETWORK && extra.recentBlockhash !== undefined,
        onSigned: ({ payment }) => {
          const signedAt = simulation.trueMs;
          payment.moved = () => this.#cluster.moved(payment.nonce);
          const withinMs = DECIDED_WITHIN_SLOTS * this.#cluster.slotMs;
          if (this.#commitment === "confirmed")
            payment.wasShown = () => this.#cluster.wasConfirmed(payment.nonce);
          const look = () => {
            // A gateway whose clock is ahead takes the payment to end later.
            if (!laws.areClocksRight) return;
            const isOverdue = simulation.trueMs > Math.max(signedAt, simulation.healedAtMs) + withinMs;
            if (isOverdue && laws.stateOf(payment) === "intent")
              simulation.break(`a payment of ${name} is not decided after ${DECIDED_WITHIN_SLOTS} slots`);
            else if (!isOverdue) simulation.at(10_000, simulation.world, look);
          };
          look();
        },
      });
    });
  }

  #facilitator(): Server {
    const run = this.#simulation;
    const faultRate = run.pick("faults of the facilitator on Solana", [0, 0.05, 0.3]);
    const goesWrong = (what: string, part = 1) =>
      run.fault(`the facilitator on Solana ${what}`, faultRate * part);
    const kinds = [
      { x402Version: 2, scheme: "exact", network: SOLANA_NETWORK, extra: { feePayer: FEE_PAYER } },
    ];
    return ({ url, body }, answer) => {
      if (url.pathname.endsWith("/supported"))
        return answer(json(200, { kinds, extensions: [], signers: {} }));
      const asked = JSON.parse(body) as { paymentPayload: { payload: { transaction?: string } } };
      const { transaction } = asked.paymentPayload.payload;
      if (transaction === undefined) return answer(json(400, { error: "unsupported_network" }));
      const { payer, transaction: parsed } = readTransfer(transaction);
      const { messageHash } = parsed;
      if (url.pathname.endsWith("/verify")) return answer(json(200, { isValid: true, payer }));
      run.say(`the facilitator on Solana is asked to settle ${messageHash.slice(-6)}`);
      for (const hear of this.#hears) hear(messageHash);
      this.#settle(transaction, { payer, messageHash, goesWrong, answer });
    };
  }

  #settle(
    transaction: string,
    {
      payer,
      messageHash,
      goesWrong,
      answer,
    }: {
      readonly payer: string;
      readonly messageHash: string;
      goesWrong(what: string, part?: number): boolean;
      answer(answer: WireAnswer): void;
    },
  ): void {
    const run = this.#simulation;
    const cluster = this.#cluster;
    const same = { payer, network: SOLANA_NETWORK };
    const yes = (signature: string) => answer(json(200, { success: true, transaction: signature, ...same }));
    const no = (errorReason: string) =>
      answer(json(200, { success: false, errorReason, transaction: "", ...same }));
    if (goesWrong("says no and sends nothing")) {
      no("duplicate_settlement");
      return;
    }
    if (goesWrong("stalls before it sends")) {
      if (goesWrong("sends late", 4))
        cluster.sendLater(transaction, run.random("it sends late") * MAX_LATE_MS);
      return;
    }
    if (goesWrong("says yes and sends nothing")) {
      yes(toBase58(Buffer.alloc(64, 7)));
      return;
    }
    const signature = cluster.send(transaction);
    // It has restarted, and forgotten that it sent the transaction.
    if (goesWrong("sends twice", 3)) cluster.sendLater(transaction, run.delay("it sends again", 1, 30_000));
    if (goesWrong("stalls after it has sent")) return;
    if (goesWrong("sends and says no")) {
      no("transaction_failed");
      return;
    }
    if (goesWrong("names the transaction of another payment")) {
      yes(cluster.lastSignature ?? signature);
      return;
    }
    if (goesWrong("says yes before the cluster does")) {
      yes(signature);
      return;
    }
    const awaitLanded = (leftMs: number): void => {
      const landed = cluster.find(messageHash);
      if (landed === undefined && leftMs > 0) run.at(LOOK_MS, run.world, () => awaitLanded(leftMs - LOOK_MS));
      else if (landed?.hasFailed === false) yes(signature);
      else no("transaction_failed");
    };
    awaitLanded(PATIENCE_MS);
  }
}

function json(status: number, value: unknown): WireAnswer {
  return { status, headers: { "content-type": "application/json" }, text: JSON.stringify(value) };
}

type X402Token = Shop["x402"]["acceptedTokens"][number];

function keyOf(number: number) {
  const seed = Buffer.alloc(32);
  seed.writeUInt32BE(number);
  // PKCS #8 of a key of Ed25519.
  const der = Buffer.concat([Buffer.from("302e020100300506032b657004220420", "hex"), seed]);
  return createPrivateKey({ key: der, format: "der", type: "pkcs8" });
}

/** Returns the address of a key. */
function addressOfKey(number: number): string {
  return toBase58(createPublicKey(keyOf(number)).export({ format: "der", type: "spki" }).subarray(-32));
}

const numbers = new Map(
  Array.from({ length: Math.max(...NUMBERS) }, (_, i) => [addressOfKey(FIRST + i), FIRST + i] as const),
);

/** Signs a payment on Solana. */
export function signOnSolana(terms: Terms): Signed {
  const { resource, accepted, amount, payer, client, ends, once, charge = "before" } = terms;
  const { extra, payTo, asset } = accepted as PaymentRequirements & { extra: Record<string, string> };
  const message = transferMessage({
    ...{ feePayer: extra.feePayer ?? "", payer, mint: asset, memo: extra.memo ?? "", decimals: 6 },
    ...{ source: tokenAccountOf(payer, asset), destination: tokenAccountOf(payTo, asset) },
    ...{ amount: BigInt(amount), blockhash: extra.recentBlockhash ?? "" },
  });
  const signature = sign(null, message, keyOf(numbers.get(payer) ?? 0));
  const transaction = Buffer.from(transferTransaction(message, signature)).toString("base64");
  const { messageHash } = readTransfer(transaction).transaction;
  return {
    payment: {
      ...{ payer, nonce: messageHash, client, once, charge, ends, asset: asset.toLowerCase() },
      ...{ amount: BigInt(amount), mayBeCharged: 0, hasFailed: false },
    },
    payload: { x402Version: 2, resource, accepted, payload: { transaction } } as never,
  };
}
