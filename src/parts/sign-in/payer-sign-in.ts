import type { X402Config } from "../../config/config.ts";
import type { ShopAddition, X402Part } from "../../x402/part.ts";
import type { Services } from "../../x402/services.ts";
import { AccountContracts } from "./account-contracts.ts";
import { OPEN_API } from "./open-api.ts";
import { PayerCallsRoute } from "./payer-calls-route.ts";
import { SignIn } from "./sign-in.ts";
import { SIGN_IN } from "./sign-in-message.ts";

/** Sign-in of payers, made anew for each configuration. The connections to chains are kept over a reload. */
export class PayerSignIn implements X402Part {
  readonly #services: Services;
  readonly #contracts: AccountContracts;

  constructor(services: Services) {
    const { telemetry, periods } = services;
    this.#services = services;
    this.#contracts = new AccountContracts({ timeoutMs: periods.rpcTimeoutMs, telemetry });
  }

  open({ publicUrl, acceptedTokens }: X402Config): ShopAddition {
    const { tokens, store, limits, clock, methods } = this.#services;
    const networks = new Map(
      acceptedTokens.map(({ network, transferMethod }) => [
        network,
        methods.find(transferMethod)?.accountProof,
      ]),
    );
    const contracts = this.#contracts;
    const signIn = new SignIn({ tokens, nonces: store, contracts, networks, limits, publicUrl, clock });
    const calls = new PayerCallsRoute({ payments: store, calls: store, tokens, signIn, limits, publicUrl });
    return {
      apply: () => contracts.watch(acceptedTokens),
      payerProof: signIn,
      feature: {
        guide: `A payer who lost the \`access_token\` signs the challenge of \`GET ${publicUrl}/x402/calls\` (\`sign-in-with-x\`) and lists its calls.`,
        links: { calls: `${publicUrl}/x402/calls` },
        openApi: OPEN_API,
      },
      pageHeaders: { sent: [SIGN_IN.toUpperCase()], read: [] },
      routes: () => [["/x402/calls", { GET: (request) => calls.answer(request) }]],
    };
  }
}
