import { createRequire } from "node:module";
import { connect } from "node:net";
import type { PaymentRequirements } from "@x402/core/types";
import { type ChannelConfig, channelIdOf, voucherDigest } from "../src/parts/channels/hashes.ts";
import { percentile } from "./load.ts";

/*
 * A process in which buyers pay by vouchers, each over a raw socket, one after the other. All vouchers are signed before the first is
 * sent. Argument: a VoucherLoad in JSON. Prints `ready` once the server has compiled what it runs, and then a GeneratedLoad in JSON.
 */

export interface VoucherLoad {
  readonly url: string;
  readonly method: "GET" | "POST";
  readonly body: string;
  /** Status of a sale. */
  readonly status: number;
  readonly chainId: number;
  readonly accepted: PaymentRequirements;
  readonly buyers: readonly VoucherBuyer[];
  /** Vouchers of each buyer, after those of the warm-up. */
  readonly vouchers: number;
  readonly warmUp: number;
}

export interface VoucherBuyer {
  readonly config: ChannelConfig;
  readonly privateKey: string;
  /** Token units that its vouchers have paid so far. */
  readonly paid: string;
}

interface Signer {
  ecdsaSign(hash: Uint8Array, key: Uint8Array): { readonly signature: Uint8Array; readonly recid: number };
}

const load = JSON.parse(process.argv[2] ?? "") as VoucherLoad;
const { ecdsaSign } = createRequire(import.meta.url)("secp256k1") as Signer;
const { hostname, port, pathname } = new URL(load.url);
const HEAD_END = Buffer.from("\r\n\r\n");
const latencies: number[] = [];

function requestsOf({ config, privateKey, paid }: VoucherBuyer): Buffer[] {
  const channelId = channelIdOf(load.chainId, config);
  const key = Buffer.from(privateKey.slice(2), "hex");
  return Array.from({ length: load.warmUp + load.vouchers }, (_, i) => {
    const cumulative = BigInt(paid) + BigInt(load.accepted.amount) * BigInt(i + 1);
    const hash = Buffer.from(voucherDigest(load.chainId, channelId, cumulative).slice(2), "hex");
    const { signature, recid } = ecdsaSign(hash, key);
    const signed = `0x${Buffer.from(signature).toString("hex")}${(27 + recid).toString(16)}`;
    const voucher = { channelId, maxClaimableAmount: String(cumulative), signature: signed };
    const payload = { type: "voucher", channelConfig: config, voucher };
    const payment = { x402Version: 2, accepted: load.accepted, payload };
    const header = Buffer.from(JSON.stringify(payment)).toString("base64");
    return Buffer.from(
      `${load.method} ${pathname} HTTP/1.1\r\nhost: ${hostname}:${port}\r\npayment-signature: ${header}\r\n` +
        `content-length: ${Buffer.byteLength(load.body)}\r\n\r\n${load.body}`,
    );
  });
}

/** @returns length of the first answer; undefined while it is incomplete. @throws Error on another status */
function answerLength(bytes: Buffer): number | undefined {
  const end = bytes.indexOf(HEAD_END);
  if (end === -1) return undefined;
  const head = bytes.toString("latin1", 0, end);
  if (!head.startsWith(String(load.status), 9)) throw new Error(`unexpected answer: ${bytes.toString()}`);
  const length = end + HEAD_END.length + Number(/content-length: (\d+)/i.exec(head)?.[1]);
  return bytes.length < length ? undefined : length;
}

/** Sends requests over one connection, each after the answer to the one before. */
function send(requests: readonly Buffer[]): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: hostname, port: Number(port), noDelay: true });
    let pending: Buffer = Buffer.alloc(0);
    let [sent, sentAt] = [0, 0];
    const next = () => {
      const request = requests[sent++];
      if (request === undefined) return void socket.end();
      sentAt = performance.now();
      socket.write(request);
    };
    socket.on("connect", next);
    socket.on("data", (chunk) => {
      pending = pending.length === 0 ? chunk : Buffer.concat([pending, chunk]);
      try {
        const length = answerLength(pending);
        if (length === undefined) return;
        pending = pending.subarray(length);
      } catch (error) {
        return void socket.destroy(error as Error);
      }
      latencies.push(performance.now() - sentAt);
      next();
    });
    socket.on("error", reject);
    socket.on("close", () => resolve());
  });
}

const requests = load.buyers.map(requestsOf);
await Promise.all(requests.map((own) => send(own.slice(0, load.warmUp))));
latencies.length = 0;
console.log("ready");
const startedAt = performance.now();
const cpuBefore = process.cpuUsage();
await Promise.all(requests.map((own) => send(own.slice(load.warmUp))));
const seconds = (performance.now() - startedAt) / 1_000;
const { user, system } = process.cpuUsage(cpuBefore);
console.log(
  JSON.stringify({
    requests: latencies.length,
    seconds,
    cpuShare: (user + system) / 1e6 / seconds,
    p50: percentile(latencies, 0.5),
    p99: percentile(latencies, 0.99),
  }),
);
