import type { IncomingMessage, ServerResponse } from "node:http";
import { json } from "node:stream/consumers";
import { x402Facilitator } from "@x402/core/facilitator";
import type { Network, PaymentPayload, PaymentRequirements } from "@x402/core/types";
import { toFacilitatorEvmSigner } from "@x402/evm";
import { BatchSettlementEvmScheme } from "@x402/evm/batch-settlement/facilitator";
import { ExactEvmScheme } from "@x402/evm/exact/facilitator";
import { ExactEvmSchemeV1 } from "@x402/evm/exact/v1/facilitator";
import { UptoEvmScheme } from "@x402/evm/upto/facilitator";
import { EVM_NETWORK_CHAIN_ID_MAP } from "@x402/evm/v1";
import pLimit from "p-limit";
import { createNonceManager, createWalletClient, type Hex, publicActions } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { jsonRpc } from "viem/nonce";
import { recoverNativelyInViem } from "../../src/chain/native-signatures.ts";
import { accounts } from "./accounts.ts";
import { type Anvil, minedReceipt, rpcTransport } from "./anvil.ts";
import { listenHttp } from "./http-listener.ts";
import { ALLOWED_FACTORY } from "./wallets.ts";

/** One request that the facilitator got, and how it answered. */
export interface FacilitatorCall {
  readonly route: "verify" | "settle" | "supported";
  readonly x402Version?: number;
  readonly paymentPayload?: PaymentPayload;
  readonly paymentRequirements?: PaymentRequirements;
  status: number;
  answer: unknown;
}

/** A facilitator of the official SDK behind HTTP, which sends real transactions. */
export interface Facilitator {
  readonly url: string;
  readonly port: number;
  /** Requests received, by route; counted before they are answered. */
  readonly counts: { verify: number; settle: number; supported: number };
  /** All requests in the order in which they arrived. */
  readonly calls: readonly FacilitatorCall[];
  stop(): Promise<void>;
}

/**
 * Starts a facilitator for version 2 of the exact scheme, and for version 1 where the chain has a name there.
 * It forgets its state when stopped, like one that restarts.
 */
export async function startFacilitator(options: {
  readonly anvil: Anvil;
  /** Default: the chain's own RPC; a fault proxy's URL makes the facilitator see a faulty chain. */
  readonly rpcUrl?: string;
  /** Default 0: a free port. The port of a stopped one makes this its restart. */
  readonly port?: number;
  /** Key that sends its transactions. Default: that of the account `facilitator`. */
  readonly privateKey?: Hex;
  /** How long it waits for a settlement to be mined before it answers `settlement_pending`. Default 10 s. */
  readonly confirmationTimeoutMs?: number;
  /** Gives Permit2 the approvals of payers who sign them. */
  readonly sponsorsGas?: boolean;
  /** Settles payments of the scheme upto, too. */
  readonly meteredSettler?: boolean;
  /** Settles deposits, claims and refunds of channels, too. */
  readonly settlesChannels?: boolean;
}): Promise<Facilitator> {
  const { anvil, rpcUrl = anvil.rpcUrl, port = 0, confirmationTimeoutMs = 10_000 } = options;
  const {
    privateKey = accounts.facilitator.privateKey,
    sponsorsGas = false,
    meteredSettler = false,
    settlesChannels = false,
  } = options;
  const sends = { anvil, rpcUrl, privateKey, confirmationTimeoutMs };
  const facilitator = officialFacilitator({ ...sends, sponsorsGas, meteredSettler, settlesChannels });
  const counts = { verify: 0, settle: 0, supported: 0 };
  const calls: FacilitatorCall[] = [];

  const answer = async (request: IncomingMessage): Promise<readonly [status: number, body: unknown]> => {
    const route = `${request.method} ${request.url}`;
    if (route === "GET /supported") {
      counts.supported++;
      const body = facilitator.getSupported();
      calls.push({ route: "supported", status: 200, answer: body });
      return [200, body];
    }
    if (route !== "POST /verify" && route !== "POST /settle") return [404, { error: "Not found" }];
    const operation = route === "POST /verify" ? "verify" : "settle";
    counts[operation]++;
    const body = (await json(request)) as Omit<FacilitatorCall, "route" | "status" | "answer">;
    const call: FacilitatorCall = { ...body, route: operation, status: 0, answer: undefined };
    calls.push(call);
    const { paymentPayload, paymentRequirements } = body;
    if (paymentPayload === undefined || paymentRequirements === undefined) {
      call.status = 400;
      call.answer = { error: "Missing paymentPayload or paymentRequirements" };
    } else {
      try {
        call.answer = await facilitator[operation](paymentPayload, paymentRequirements);
        call.status = 200;
      } catch (error) {
        call.status = 500;
        call.answer = { error: error instanceof Error ? error.message : "Unknown error" };
      }
    }
    return [call.status, call.answer];
  };

  const respond = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const [status, body] = await answer(request).catch(() => [400, { error: "Invalid JSON" }] as const);
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
  };
  const listener = await listenHttp({
    handler: (request, response) => void respond(request, response),
    port,
  });
  return { url: listener.url, port: listener.port, counts, calls, stop: listener.stop };
}

// The SDK recovers several signers for each payment, which in JavaScript takes an eighth of the CPU of the tests that pay.
await recoverNativelyInViem();

function officialFacilitator(options: {
  readonly anvil: Anvil;
  readonly rpcUrl: string;
  readonly privateKey: Hex;
  readonly confirmationTimeoutMs: number;
  readonly sponsorsGas: boolean;
  readonly meteredSettler: boolean;
  readonly settlesChannels: boolean;
}): x402Facilitator {
  const { anvil, rpcUrl, privateKey, confirmationTimeoutMs } = options;
  const { sponsorsGas, meteredSettler, settlesChannels } = options;
  const network = `eip155:${anvil.chainId}` as Network;
  // A new nonce manager: a shared one would remember the nonces of an earlier chain.
  const nonceManager = createNonceManager({ source: jsonRpc() });
  const account = privateKeyToAccount(privateKey, { nonceManager });
  const wallet = createWalletClient({
    account,
    chain: anvil.chain,
    transport: rpcTransport(rpcUrl),
    pollingInterval: 10,
    cacheTime: 0,
  }).extend(publicActions);
  // The chain signs for its own accounts, which saves three requests and a signature in JavaScript for each settlement.
  const isOfChain = Object.values(accounts).some(({ privateKey: known }) => known === privateKey);
  // One after the other, because anvil may give two transactions of one account the same nonce.
  const sendOne = pLimit(1);
  const sentByChain = async (call: Parameters<typeof wallet.writeContract>[0]): Promise<Hex> => {
    const gas = await wallet.estimateContractGas(call as Parameters<typeof wallet.estimateContractGas>[0]);
    const sent = { ...call, account: account.address, chain: null, gas } as typeof call;
    return sendOne(() => wallet.writeContract(sent));
  };
  const signer = toFacilitatorEvmSigner(
    {
      ...wallet,
      ...(isOfChain && { writeContract: sentByChain }),
      address: account.address,
      waitForTransactionReceipt: (wanted: { hash: Hex; timeout?: number }) =>
        minedReceipt(wallet, { ...wanted, anvil }),
    } as unknown as Parameters<typeof toFacilitatorEvmSigner>[0],
    { confirmationTimeoutMs },
  );
  const facilitator = new x402Facilitator().register(
    network,
    new ExactEvmScheme(signer, { eip6492AllowedFactories: [ALLOWED_FACTORY] }),
  );
  if (meteredSettler) facilitator.register(network, new UptoEvmScheme(signer));
  if (settlesChannels) facilitator.register(network, new BatchSettlementEvmScheme(signer));
  const nameInV1 = Object.entries(EVM_NETWORK_CHAIN_ID_MAP).find(([, id]) => id === anvil.chainId)?.[0];
  if (nameInV1 !== undefined) facilitator.registerV1(nameInV1 as Network, new ExactEvmSchemeV1(signer));
  if (sponsorsGas) {
    const sendTransactions = async (
      transactions: readonly (Hex | { readonly to: Hex; readonly data: Hex })[],
    ) => {
      const hashes: Hex[] = [];
      for (const transaction of transactions) {
        const hash =
          typeof transaction === "string"
            ? await wallet.sendRawTransaction({ serializedTransaction: transaction })
            : await wallet.sendTransaction(transaction);
        await minedReceipt(wallet, { anvil, hash });
        hashes.push(hash);
      }
      return hashes;
    };
    const extensions: { readonly key: string; readonly signer?: object }[] = [
      { key: "eip2612GasSponsoring" },
      { key: "erc20ApprovalGasSponsoring", signer: { ...signer, sendTransactions } },
    ];
    for (const extension of extensions) facilitator.registerExtension(extension);
  }
  return facilitator;
}
