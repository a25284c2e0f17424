import type { IncomingMessage, ServerResponse } from "node:http";
import { json } from "node:stream/consumers";
import { x402Facilitator } from "@x402/core/facilitator";
import type { Network, PaymentPayload, PaymentRequirements } from "@x402/core/types";
import { toFacilitatorSvmSigner } from "@x402/svm";
import { ExactSvmScheme } from "@x402/svm/exact/facilitator";
import { listenHttp } from "./http-listener.ts";
import { SOLANA_NETWORK, solanaAccount } from "./solana-cluster.ts";

/** The official facilitator for Solana behind HTTP. */
export interface SolanaFacilitator {
  readonly url: string;
  readonly port: number;
  readonly counts: { verify: number; settle: number; supported: number };
  /** Answers to settlements, in order. */
  readonly settled: readonly { readonly success: boolean; readonly errorReason?: string }[];
  /** While set, settlements are carried out and their answers lost. */
  losesAnswers: boolean;
  /** While set, requests are counted and dropped. */
  isAway: boolean;
  stop(): Promise<void>;
}

/** Starts a facilitator, which forgets its state when stopped, like one that restarts. */
export async function startSolanaFacilitator({
  rpcUrl,
  port = 0,
  feePayer = 1,
}: {
  readonly rpcUrl: string;
  /** Number of the account that pays for transactions. */
  readonly feePayer?: number;
  readonly port?: number;
}): Promise<SolanaFacilitator> {
  const signer = toFacilitatorSvmSigner(await solanaAccount(feePayer), { defaultRpcUrl: rpcUrl });
  const official = new x402Facilitator().register(SOLANA_NETWORK as Network, new ExactSvmScheme(signer));
  const counts = { verify: 0, settle: 0, supported: 0 };
  const settled: { success: boolean; errorReason?: string }[] = [];

  const respond = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const operation = request.url?.slice(1) as keyof typeof counts;
    counts[operation]++;
    if (facilitator.isAway) return void response.destroy();
    let body: unknown = official.getSupported();
    if (operation !== "supported") {
      const { paymentPayload, paymentRequirements } = (await json(request)) as {
        readonly paymentPayload: PaymentPayload;
        readonly paymentRequirements: PaymentRequirements;
      };
      body = await official[operation](paymentPayload, paymentRequirements);
    }
    if (operation === "settle") {
      settled.push(body as { success: boolean });
      if (facilitator.losesAnswers) return void response.destroy();
    }
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body));
  };
  const listener = await listenHttp({
    handler: (request, response) => void respond(request, response),
    port,
  });
  const facilitator: SolanaFacilitator = {
    ...{ url: listener.url, port: listener.port, counts, settled },
    losesAnswers: false,
    isAway: false,
    stop: listener.stop,
  };
  return facilitator;
}
