import { randomUUID } from "node:crypto";
import type { SettleResponse } from "@x402/core/types";
import { ExactEvmScheme } from "@x402/evm/exact/facilitator";
import type { Logger } from "pino";
import { erc20Abi, type Hex } from "viem";
import { recoverNativelyInViem } from "../../chain/native-signatures.ts";
import type { X402Config } from "../../config/config.ts";
import type { BackgroundService } from "../../core/background-service.ts";
import { monotonicClock } from "../../core/clock.ts";
import { GatewayError } from "../../core/errors.ts";
import type { GaugeSample } from "../../core/instruments.ts";
import type { Locks } from "../../core/lease-lock.ts";
import { NO_TELEMETRY, type Telemetry } from "../../core/telemetry.ts";
import type { Store } from "../../store/store.ts";
import {
  type Facilitator,
  type FacilitatorRequest,
  measureRequest,
  type SettlementAnswer,
  type Supported,
  type Verification,
} from "../../x402/facilitators/facilitator.ts";
import type { NetworkSettlement } from "../../x402/facilitators/own-settlement.ts";
import type { Holding } from "../../x402/holding.ts";
import type { Methods } from "../../x402/methods/methods.ts";
import { readTransfer } from "../../x402/settlement/chain-logs.ts";
import { SettlerAccount } from "../transactions/account.ts";
import type { Receipt } from "../transactions/chain.ts";
import { NetworkSettler } from "../transactions/network-settler.ts";
import type { PaymentSigner } from "../transactions/signer.ts";
import { findLocal } from "./config.ts";
import { readSettlerPayment, type SettlerPayment, settledScheme } from "./payment.ts";

/** Time limit of one RPC call. */
const RPC_TIMEOUT_MS = 5_000;

/**
 * Facilitator inside jobgate. It verifies payments with the SDK's schemes, and settles them with transactions that a durable
 * journal records before they are sent.
 */
export class LocalFacilitator implements Facilitator, BackgroundService {
  readonly name = "local";
  readonly #networks: ReadonlyMap<string, NetworkSettler>;
  /** Settlers of networks that are not EVM chains. */
  readonly #own: ReadonlyMap<string, NetworkSettlement>;
  readonly #addresses: readonly string[];
  readonly #methods: Methods;
  readonly #timeoutMs: number;
  readonly #logger: Logger;
  readonly #telemetry: Telemetry;

  /** @throws Error if the configuration has no local facilitator */
  constructor(parts: {
    /** `facilitatorTimeoutMs` is the longest time that a request waits for its settlement to be mined. */
    readonly config: Pick<X402Config, "facilitators" | "facilitatorTimeoutMs">;
    readonly methods: Methods;
    readonly store: Pick<Store, "of" | "isShared"> & Locks;
    readonly logger: Logger;
    readonly telemetry?: Telemetry;
  }) {
    const { config, methods, store, logger, telemetry = NO_TELEMETRY } = parts;
    const local = findLocal(config.facilitators);
    if (local === undefined) throw new Error("the configuration has no local facilitator");
    const { signers, chains, maxFeePerGasWei, minBalanceWei } = local;
    const accounts = signers.map(({ privateKey }) => new SettlerAccount(privateKey));
    const owner = randomUUID();
    this.#own = new Map(
      chains.flatMap(({ network, rpcUrl, feePayer }) => {
        const settlement = methods.ownSettlement(network);
        if (settlement === undefined || feePayer === undefined) return [];
        const access = { network, rpcUrl, rpcTimeoutMs: RPC_TIMEOUT_MS, feePayer };
        const own = { owner, minBalanceWei, store, clock: monotonicClock, logger, telemetry };
        return [[network, settlement.open({ ...access, ...own })] as const];
      }),
    );
    const evmChains = chains.filter(({ feePayer }) => feePayer === undefined);
    this.#networks = new Map(
      evmChains.map(({ network, rpcUrl }) => {
        const settler = new NetworkSettler({
          network,
          rpcUrl,
          rpcTimeoutMs: RPC_TIMEOUT_MS,
          accounts,
          owner,
          senderOf: (transaction) => methods.senderOf(transaction),
          maxFeePerGasWei,
          minBalanceWei,
          store,
          clock: monotonicClock,
          logger,
          telemetry,
        });
        return [network, settler];
      }),
    );
    this.#addresses = accounts.map(({ address }) => address);
    this.#methods = methods;
    this.#timeoutMs = config.facilitatorTimeoutMs;
    this.#logger = logger;
    this.#telemetry = telemetry;
  }

  /** Starts to send transactions. The start succeeds even if no chain responds yet. */
  async start(): Promise<void> {
    await recoverNativelyInViem();
    await Promise.all([...this.#networks.values(), ...this.#own.values()].map((one) => one.start()));
  }

  async stop(): Promise<void> {
    await Promise.all([...this.#networks.values(), ...this.#own.values()].map((one) => one.stop()));
  }

  async supported(): Promise<Supported> {
    const methods = [...this.#methods];
    const scheme = settledScheme(this.#methods);
    const [settler = ""] = this.#addresses;
    return {
      kinds: [
        ...[...this.#own].map(([network, { extra }]) => ({
          ...{ x402Version: 2, scheme: "exact", network, extra },
        })),
        ...[...this.#networks.keys()].flatMap((network) => [
          { x402Version: 2, scheme: "exact", network },
          ...(scheme
            ? [{ x402Version: 2, scheme: scheme.name, network, extra: scheme.extraFor(settler) }]
            : []),
          ...this.#ownSchemes.map(({ name }) => ({ x402Version: 2, scheme: name, network })),
          ...this.#methods.versions.added.flatMap((version) => {
            const name = version.nameOf(network);
            return name === undefined ? [] : { x402Version: version.number, scheme: "exact", network: name };
          }),
        ]),
      ],
      extensions: methods.flatMap(({ settledExtensions = [] }) => settledExtensions),
      signers: {
        ...(this.#networks.size > 0 && { "eip155:*": [...this.#addresses] }),
        ...Object.fromEntries([...this.#own].map(([network, { address }]) => [network, [address]])),
      },
    };
  }

  verify(request: FacilitatorRequest): Promise<Verification> {
    return measureRequest(this.#telemetry, this.name, "verify", () => this.#verify(request));
  }

  /** Sends the payment's transaction and waits until it is mined. Repeated calls for a payment send one transaction. */
  settle(request: FacilitatorRequest): Promise<SettlementAnswer> {
    return measureRequest(this.#telemetry, this.name, "settle", () => this.#settle(request));
  }

  async #verify(request: FacilitatorRequest): Promise<Verification> {
    const own = this.#own.get(request.requirements.network);
    if (own !== undefined)
      return own.verify(request).catch((error: unknown) => {
        throw error instanceof GatewayError ? error : silent(error);
      });
    const payment = readSettlerPayment(request, this.#methods);
    const settler = payment && this.#networks.get(payment.network);
    if (payment === undefined || settler === undefined)
      return { kind: "invalid", reason: "unsupported_scheme" };
    const signer = settler.signerOf(payment);
    const { payload, requirements } = payment;
    const [verdict] = await Promise.all([
      this.#schemeOf(payment, signer).then((scheme) => scheme.verify(payload, requirements)),
      settler.funds.require(),
    ]).catch((error: unknown) => {
      throw error instanceof GatewayError ? error : silent(error);
    });
    const reason = verdict.isValid ? undefined : await reasonOf(verdict.invalidReason, payment, signer);
    // If the RPC does not respond, the scheme rejects the payment or takes the payer for a plain account.
    if (signer.silence !== undefined) throw silent(signer.silence);
    return reason === undefined ? { kind: "valid", payer: payment.from } : { kind: "invalid", reason };
  }

  async #settle(request: FacilitatorRequest): Promise<SettlementAnswer> {
    const own = this.#own.get(request.requirements.network);
    if (own !== undefined) return own.settle(request, monotonicClock() + this.#timeoutMs);
    const payment = readSettlerPayment(request, this.#methods);
    const settler = payment && this.#networks.get(payment.network);
    if (payment === undefined || settler === undefined)
      return { kind: "refused", reason: "unsupported_scheme" };
    const deadlineMs = monotonicClock() + this.#timeoutMs;
    const signer = settler.signerOf({ ...payment, deadlineMs });
    try {
      const scheme = await this.#schemeOf(payment, signer);
      const answer = await scheme.settle(payment.payload, payment.requirements);
      return toSettlementAnswer(answer, signer, payment);
    } catch (error) {
      this.#logger.debug({ err: error, reference: payment.reference }, "a settlement is undecided");
      return { kind: "no_answer", reason: error instanceof Error ? error.message : "not settled" };
    }
  }

  async #schemeOf({ sender, requirements }: SettlerPayment, signer: PaymentSigner) {
    const config = { pendingSettlementStore: signer.earlierSettlement };
    const own = this.#ownSchemes.find(({ name }) => name === requirements.scheme);
    if (own !== undefined) return own.load(signer, config);
    const ceilings = sender === undefined ? undefined : this.#methods.ceilingScheme;
    return ceilings?.settledBy(signer, config) ?? new ExactEvmScheme(signer, config);
  }

  get #ownSchemes() {
    return [...this.#methods].flatMap(({ ownScheme }) => ownScheme ?? []);
  }

  /** Balances for gas on each network, as last read. */
  holdings(): Holding[] {
    return [...this.#networks.values(), ...this.#own.values()].flatMap((network) => network.holdings());
  }

  /** Balances and waiting transactions on each network. */
  gauges(): GaugeSample[] {
    return [...this.#networks.values(), ...this.#own.values()].flatMap((network) => network.gauges());
  }
}

/**
 * Returns why a payment is invalid. On a chain without the contract Multicall3, the scheme reports a payer without enough
 * tokens only as a transfer that fails.
 */
async function reasonOf(
  reason = "no reason given",
  { from, transfer }: SettlerPayment,
  signer: PaymentSigner,
): Promise<string> {
  if (/insufficient_balance$/.test(reason)) return "insufficient_funds";
  if (!/simulation_failed$/.test(reason) || transfer === undefined) return reason;
  const { token, value } = transfer;
  const asked = { address: token as Hex, abi: erc20Abi, functionName: "balanceOf", args: [from] };
  const balance = await signer.readContract(asked).catch(() => value);
  return (balance as bigint) < value ? "insufficient_funds" : reason;
}

function toSettlementAnswer(
  answer: SettleResponse,
  { receipt, isQueued, silence }: PaymentSigner,
  payment: SettlerPayment,
): SettlementAnswer {
  const reason = answer.errorReason ?? "no reason given";
  if (receipt === undefined) {
    // The scheme refused before it queued a transaction. If the RPC did not respond, the refusal proves nothing.
    if (!isQueued && silence === undefined) return { kind: "refused", reason };
    if (!answer.transaction) return { kind: "no_answer", reason };
    return { kind: "refused", reason: "settlement_pending", transaction: answer.transaction };
  }
  // The mined transaction can have another hash than the scheme received, because the fees can have been raised since.
  const transaction = receipt.hash;
  if (!answer.success) return { kind: "refused", reason, transaction };
  if (!movesTokens(receipt, payment))
    return { kind: "refused", reason: "transfer_event_mismatch", transaction };
  const blockNumber = receipt.blockNumber.toString();
  const { network, from: payer } = payment;
  return { kind: "success", transaction, blockNumber, network, payer };
}

/** Reports whether the token logged the transfer, because a contract can succeed without moving tokens. */
function movesTokens({ logs }: Receipt, { from, transfer }: SettlerPayment): boolean {
  if (transfer === undefined) return true;
  return logs.some((log) => {
    if (log.address.toLowerCase() !== transfer.token) return false;
    const moved = readTransfer(log);
    return moved?.from === from && moved.to === transfer.to && moved.value === transfer.value;
  });
}

function silent(cause: unknown): GatewayError {
  return new GatewayError(
    "facilitator_unavailable",
    "The payment could not be verified, because the chain did not answer. Nothing was charged: try again.",
    { cause, headers: { "retry-after": "2" } },
  );
}
