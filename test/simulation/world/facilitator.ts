import { UPTO_PROXY } from "../../../src/parts/permit2/proxies.ts";
import type { Authorization, Chain } from "./chain.ts";
import { type Laws, shortNonce } from "./laws.ts";
import type { Server, WireAnswer } from "./network.ts";
import type { Simulation } from "./simulation.ts";

interface Asked {
  readonly paymentPayload: {
    readonly payload: {
      readonly authorization?: {
        readonly from: string;
        readonly to: string;
        readonly value: string;
        readonly validBefore: string;
        readonly nonce: string;
      };
      readonly permit2Authorization?: {
        readonly from: string;
        readonly permitted: { readonly amount: string };
        readonly spender: string;
        readonly deadline: string;
        readonly nonce: string;
        readonly witness: { readonly to: string };
      };
    };
  };
  readonly paymentRequirements: { readonly amount: string };
}

/** Time after which a facilitator stops waiting for its transaction. */
const PATIENCE_MS = 20_000;
const LOOK_MS = 500;

/** How often a facilitator does something wrong. */
export interface Character {
  readonly faultRate: number;
  /** Also says what is not true. */
  readonly lies: boolean;
}

/** A facilitator that moves nothing before it is asked to settle. */
export function facilitator(
  simulation: Simulation,
  chain: Chain,
  {
    name,
    network,
    address,
    character,
    laws,
  }: {
    readonly name: string;
    readonly network: string;
    /** Settles deferred payments. */
    readonly address: string;
    readonly character: Character;
    /** Hear what it is asked, and what it says. */
    readonly laws: () => Pick<Laws, "settleAsked" | "saysYes">;
  },
): Server {
  const { faultRate, lies } = character;
  const goesWrong = (what: string, part = 1) => simulation.fault(`${name} ${what}`, faultRate * part);
  const tellsALie = (what: string) => lies && goesWrong(what, 2);
  const later = (run: () => void) =>
    simulation.at(simulation.delay(`${name} works`, 1, 800), simulation.world, run);

  function verify(authorization: Authorization, answer: (answer: WireAnswer) => void): void {
    if (goesWrong("stalls a verification", 0.3)) return;
    if (goesWrong("answers a verification with 502")) {
      answer(json(502, {}));
      return;
    }
    const isOver = authorization.validBefore <= chain.head.timestamp;
    const isUsed = chain.useOf(authorization) !== undefined;
    const invalidReason = isOver ? "expired" : isUsed ? "used" : undefined;
    const isValid = invalidReason === undefined;
    answer(json(200, { isValid, payer: authorization.payer, ...(isValid ? {} : { invalidReason }) }));
  }

  function settle(authorization: Authorization, answer: (answer: WireAnswer) => void): void {
    const { payer } = authorization;
    const yes = (transaction: string) => {
      laws().saysYes(authorization);
      return json(200, { success: true, payer, transaction, network });
    };
    const no = (errorReason: string) =>
      json(200, { success: false, payer, transaction: "", network, errorReason });
    if (goesWrong("says no and sends nothing")) {
      answer(no("busy"));
      return;
    }
    if (goesWrong("stalls before it sends", 0.5)) {
      // Long after the gateway has stopped waiting.
      if (goesWrong("sends late", 4))
        chain.sendLater(authorization, simulation.delay(`${name} sends late`, 1, 40_000));
      return;
    }
    if (tellsALie("says yes and sends nothing")) {
      answer(yes(`0x${"e".repeat(64)}`));
      return;
    }
    const transaction = chain.send(authorization);
    if (goesWrong("sends twice")) chain.send(authorization);
    if (goesWrong("stalls after it has sent", 0.5)) return;
    if (goesWrong("answers 502 after it has sent")) {
      answer(json(502, { error: "bad gateway" }));
      return;
    }
    if (tellsALie("sends and says no")) {
      answer(no("insufficient_funds"));
      return;
    }
    if (tellsALie("says yes with the transaction of another payment")) {
      answer(yes(chain.lastTransaction ?? transaction));
      return;
    }
    if (goesWrong("says yes before the chain does")) {
      answer(yes(transaction));
      return;
    }
    awaitMined(transaction, PATIENCE_MS, (isMined) => answer(isMined ? yes(transaction) : no("reverted")));
  }

  function awaitMined(transaction: string, leftMs: number, tell: (isMined: boolean) => void): void {
    const found = chain.find(transaction);
    if (found !== undefined || leftMs <= 0) {
      tell(found?.mined.isSuccess === true);
      return;
    }
    simulation.at(LOOK_MS, simulation.world, () => awaitMined(transaction, leftMs - LOOK_MS, tell));
  }

  return ({ url, body }, answer) => {
    if (url.pathname.endsWith("/supported")) {
      const kinds = [
        { x402Version: 2, scheme: "exact", network },
        { x402Version: 2, scheme: "upto", network, extra: { facilitatorAddress: address } },
      ];
      later(() => answer(json(200, { kinds, extensions: [], signers: {} })));
      return;
    }
    const asked = JSON.parse(body) as Asked;
    const { payload } = asked.paymentPayload;
    if ("transaction" in payload || "type" in payload) {
      later(() => answer(json(400, { error: "unsupported_network" })));
      return;
    }
    const authorization = readAuthorization(asked);
    const isSettle = url.pathname.endsWith("/settle");
    if (isSettle) laws().settleAsked(authorization, name);
    if (isSettle) simulation.say(`${name} is asked to settle ${shortNonce(authorization.nonce)}`);
    later(() => (isSettle ? settle : verify)(authorization, answer));
  };
}

/** Reads the authorization, and the amount that is asked for. */
function readAuthorization({ paymentPayload, paymentRequirements }: Asked): Authorization {
  const { authorization, permit2Authorization: permit } = paymentPayload.payload;
  if (permit !== undefined) {
    const { from, permitted, spender, deadline, nonce, witness } = permit;
    const proxy = spender.toLowerCase();
    const amount = BigInt(proxy === UPTO_PROXY.address ? paymentRequirements.amount : permitted.amount);
    // Permit2 accepts a permit at its very deadline.
    const validBefore = Number(deadline) + 1;
    return { payer: from.toLowerCase(), to: witness.to.toLowerCase(), nonce, amount, validBefore, proxy };
  }
  if (authorization === undefined) throw new Error("the payment has no authorization");
  const { from, to, value, validBefore, nonce } = authorization;
  return {
    ...{ payer: from.toLowerCase(), to: to.toLowerCase(), nonce: nonce.toLowerCase() },
    ...{ amount: BigInt(value), validBefore: Number(validBefore) },
  };
}

function json(status: number, value: unknown): WireAnswer {
  return { status, headers: { "content-type": "application/json" }, text: JSON.stringify(value) };
}
