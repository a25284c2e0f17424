import { hashMessage, keccak256 } from "viem";
import type { JobPolicy } from "../../../src/config/config.ts";
import { Client, type Order } from "./client.ts";
import type { WireAnswer, WireRequest } from "./network.ts";
import type { Customer, Part, Shop, Surroundings } from "./part.ts";
import type { Simulation } from "./simulation.ts";
import { signHash } from "./viem.ts";

/** Jobs whose caller is the payer, and whose caller signs beside the payment. */
const JOBS = { payer: 2, delegated: 3 } as const;
const HOST = "permits";
const CONTRACT: `0x${string}` = `0x${"c".repeat(40)}`;
const WORDS = { yes: `0x${"1".padStart(64, "0")}`, no: `0x${"0".repeat(64)}` } as const;
/** Answers that are neither yes nor no. */
const NEITHER = ["0x", `0x${"2".padStart(64, "0")}`, `0x${"f".repeat(64)}`] as const;
const NUMBERS = [4, 8] as const;
/** First of the numbers that callers have among the clients. */
const FIRST = 1_000;
const LIFETIME_SECS = 600;

/** Jobs that a contract permits to some callers, for as long as it does. */
export class Callers implements Part {
  readonly #simulation: Simulation;
  readonly #cacheSecs: number;
  readonly #addresses: readonly string[];
  readonly #permitted = new Set<string>();
  /** Answers in which a node permitted a caller, true or not. */
  readonly #yes = new Map<string, number>();
  readonly servers;

  constructor(simulation: Simulation) {
    this.#simulation = simulation;
    this.#cacheSecs = simulation.pick("permissions are kept", [0, 0, 5]);
    const count = simulation.pick("callers", NUMBERS);
    this.#addresses = Array.from(
      { length: count },
      (_, i) => `0x${(FIRST + i).toString(16).padStart(40, "a")}`,
    );
    for (const [i, address] of this.#addresses.entries())
      if (simulation.random(`caller ${i} is permitted`) < 0.6) this.#permitted.add(address);
    this.servers = [
      {
        host: HOST,
        lossRate: 0.02,
        server: (request: WireRequest, answer: (answer: WireAnswer) => void) => this.#answer(request, answer),
      },
    ];
  }

  configure(shop: Shop): Shop {
    const policy = (
      jobIndex: number,
      authMode: "payer_is_caller" | "delegated_caller_signature",
    ): JobPolicy => ({
      ...{ serviceId: 1n, jobIndex, invocationMode: "restricted_paid" },
      restriction: {
        ...{ authMode, chainRpcUrl: `http://${HOST}`, chainContract: CONTRACT },
        permissionCacheSecs: this.#cacheSecs,
      },
    });
    const { x402 } = shop;
    const price = x402.jobPricing.get("1/0") ?? 0n;
    return {
      ...shop,
      x402: {
        ...x402,
        jobPolicies: [
          ...x402.jobPolicies,
          policy(JOBS.payer, "payer_is_caller"),
          policy(JOBS.delegated, "delegated_caller_signature"),
        ],
        jobPricing: new Map([...x402.jobPricing, [`1/${JOBS.payer}`, price], [`1/${JOBS.delegated}`, price]]),
      },
    };
  }

  customers(surroundings: Surroundings): readonly Customer[] {
    const { simulation, laws } = surroundings;
    const revokeAt = simulation.random("permissions are revoked") * 60_000;
    simulation.at(revokeAt, simulation.world, () => {
      for (const address of [...this.#permitted])
        if (simulation.random(`${address} is revoked`) < 0.5) this.#permitted.delete(address);
    });
    laws.atEnd(() => {
      for (const [i, address] of this.#addresses.entries()) {
        const [begun, yes] = [laws.begun(`caller ${i}`), this.#yes.get(address) ?? 0];
        if (begun > 0 && yes === 0) simulation.break(`caller ${i} was charged, and nobody permitted it`);
        if (begun > yes && this.#cacheSecs === 0)
          simulation.break(`caller ${i} began ${begun} payments after ${yes} permissions`);
        if (laws.begun(`impostor ${i}`) > 0) simulation.break(`impostor ${i} was taken for caller ${i}`);
      }
    });
    return this.#addresses.flatMap((address, i) =>
      this.#orders(address, i).map((order) => new Client(surroundings, order)),
    );
  }

  #orders(address: string, i: number): readonly Order[] {
    const name = `caller ${i}`;
    const order = { name, number: FIRST + i, body: `${name}: work` };
    if (i % 2 === 0) return [{ ...order, path: `/x402/jobs/1/${JOBS.payer}`, payer: address }];
    const path = `/x402/jobs/1/${JOBS.delegated}`;
    const headers = () => this.#claim(address, address, order.body, "the-only-one");
    const once = `the permission of ${name}`;
    // Two payments with one claim.
    const again = { ...order, name: `${name} again`, number: FIRST + 100 + i };
    const impostor = { name: `impostor ${i}`, number: FIRST + 200 + i, body: `impostor ${i}: work`, path };
    const forged = () => this.#claim(address, `0x${"f".repeat(40)}`, impostor.body, "another");
    return [
      { ...order, path, headers, once },
      ...(this.#simulation.random(`${name} comes twice`) < 0.4 ? [{ ...again, path, headers, once }] : []),
      ...(this.#simulation.random(`${name} has an impostor`) < 0.6 ? [{ ...impostor, headers: forged }] : []),
    ];
  }

  /** Returns the headers of a claim that some account signs for a caller. */
  #claim(caller: string, signer: string, body: string, nonce: string): Readonly<Record<string, string>> {
    const expiry = Math.floor(this.#simulation.wallMs / 1000) + LIFETIME_SECS;
    const bodyHash = keccak256(Buffer.from(body)).slice(2);
    const message = `x402-authorize:1:${JOBS.delegated}:${bodyHash}:${nonce}:${expiry}`;
    return {
      "x-chain-caller": caller,
      "x-chain-caller-sig": signHash(signer, hashMessage(message)),
      "x-chain-caller-nonce": nonce,
      "x-chain-caller-expiry": String(expiry),
    };
  }

  #answer({ body }: WireRequest, answer: (answer: WireAnswer) => void): void {
    const run = this.#simulation;
    const { method, params } = JSON.parse(body) as { method: string; params: [{ data?: string }] };
    const say = (result: string) => {
      const text = JSON.stringify({ jsonrpc: "2.0", id: 1, result });
      answer({ status: 200, headers: { "content-type": "application/json" }, text });
    };
    if (method === "eth_chainId") {
      say("0x7");
      return;
    }
    if (method === "eth_getCode") {
      say("0x");
      return;
    }
    if (run.fault("the permitting node stays silent", 0.03)) return;
    if (run.fault("the permitting node answers neither yes nor no", 0.1)) {
      say(run.pick("neither", NEITHER));
      return;
    }
    const caller = `0x${(params[0].data ?? "").slice(-40)}`;
    const isLie = run.fault("the permitting node lies", 0.03);
    const isPermitted = this.#permitted.has(caller) !== isLie;
    if (isPermitted) this.#yes.set(caller, (this.#yes.get(caller) ?? 0) + 1);
    say(isPermitted ? WORDS.yes : WORDS.no);
  }
}
