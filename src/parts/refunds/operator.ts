import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import type { Logger } from "pino";
import type { Config } from "../../config/config.ts";
import { amountText } from "../../core/amounts.ts";
import type { GatewayEvent } from "../../core/events.ts";
import type {
  ApproveRefundRequest,
  DeclineRefundRequest,
  ListRefundsRequest,
} from "../../gen/jobgate/v1/operator_pb.ts";
import { type DecimalsOf, decimalsIn, nameIn } from "../../operator/messages.ts";
import type { ApiAddition, OperatorMethods } from "../../operator/methods.ts";
import { invalid, isCallId, notFound, readPage, readSignature } from "../../operator/requests.ts";
import { REFUND_STATES } from "./operator-states.ts";
import type { Refund, RefundDecision, RefundLedger, RefundSum } from "./store/ledger.ts";
import { refundSums } from "./store/queries.ts";
import { isLost, isUnproven, refundEvent } from "./store/rules.ts";

/** Adds refunds to the operator's API. */
export function refundOperation(parts: {
  readonly ledger: Pick<RefundLedger, "listRefunds" | "findRefundStates" | "decideRefund">;
  readonly configuration: () => Config;
  readonly logger: Logger;
}): ApiAddition {
  const { ledger, logger, configuration } = parts;

  async function decide(request: ApproveRefundRequest | DeclineRefundRequest, as: RefundDecision["as"]) {
    const { callId } = request;
    const decision = { as, ...readSignature(request) };
    const found = isCallId(callId) ? await ledger.decideRefund(Number(callId), decision) : undefined;
    if (found?.refund === undefined) throw notFound("refund", callId);
    const { kind, refund } = found;
    if (kind === "decided") {
      logger.warn({ callId: refund.callId, decision: refund.decision }, "refund decided by the operator");
      return { refund: toRefund(refund, configuration) };
    }
    const why = refund.reason === undefined ? "" : ` (${refund.reason})`;
    const isDue = refund.state === "owed" ? `owed and sent without another approval${why}` : refund.state;
    throw new ConnectError(`Refund ${callId} is ${isDue}: it cannot be ${as}.`, Code.FailedPrecondition);
  }

  async function find(callId: number): Promise<Refund | undefined> {
    const [refund] = await ledger.listRefunds({ limit: 1, before: callId + 1 });
    return refund?.callId === callId ? refund : undefined;
  }

  const methods: OperatorMethods = {
    async listRefunds(request: ListRefundsRequest) {
      const state = nameIn(REFUND_STATES, request.state);
      if (state === undefined && request.state !== 0) throw invalid("state: expected a RefundState.");
      const { items, nextPageToken } = await readPage(request, async (range) => ({
        items: await ledger.listRefunds({ state, ...range }),
      }));
      return { refunds: items.map((refund) => toRefund(refund, configuration)), nextPageToken };
    },
    approveRefund: (request) => decide(request, "approved"),
    declineRefund: (request) => decide(request, "declined"),
  };
  return {
    methods,
    async callDetails({ callId }) {
      const refund = await find(callId);
      return refund === undefined ? {} : { refund: toRefund(refund, configuration) };
    },
    async paymentDetails(callIds) {
      const found = await ledger.findRefundStates(callIds);
      return new Map(found.map(({ callId, state }) => [callId, { refundState: REFUND_STATES[state] }]));
    },
    totals: (totals) => ({
      refunds: refundSums(totals).map((sum) => toRefundSum(sum, decimalsIn(configuration))),
    }),
    async timeline(callId) {
      const refund = await find(callId);
      return refund === undefined ? [] : historyOf(refund);
    },
  };
}

/** Returns what is known of the past of a refund, in the words of the tail. */
function historyOf(refund: Refund): GatewayEvent[] {
  const owed = { ...refund, state: "owed", reason: undefined, transaction: undefined } as const;
  const { decision, state, createdAt } = refund;
  return [
    refundEvent({ ...owed, decision: undefined }, createdAt),
    ...(decision?.as === "approved" ? [refundEvent(owed, decision.at)] : []),
    ...(state === "owed" ? [] : [refundEvent(refund)]),
  ];
}

/** Reason why a refund waits while the configuration has no account for refunds. */
const NO_ACCOUNT = "the configuration has no account for refunds";

/**
 * Makes the message of a refund. The message's reason also explains why the refund is not sent with the configuration
 * in use.
 */
function toRefund(refund: Refund, configuration: () => Pick<Config, "x402">) {
  const { network, asset, symbol, amount, payer, attempt, state, decision, transaction = "" } = refund;
  const asks = (state === "owed" && (!refund.isApproved || isUnproven(refund))) || isLost(refund);
  const isDue = (state === "owed" && !asks) || state === "sending";
  const reason = isDue && !configuration().x402?.paysBack ? NO_ACCOUNT : (refund.reason ?? "");
  return {
    ...{ network, asset, symbol, amount, payer, attempt, reason, transaction },
    callId: BigInt(refund.callId),
    state: REFUND_STATES[state],
    asks,
    amountText: amountText(amount, symbol, decimalsIn(configuration)(refund)),
    createdAt: timestampFromMs(refund.createdAt),
    updatedAt: timestampFromMs(refund.updatedAt),
    ...(decision === undefined ? {} : { decision: toDecision(decision) }),
  };
}

function toRefundSum({ state, refunds, amount, oldestAt, ...token }: RefundSum, decimalsOf: DecimalsOf) {
  return {
    ...token,
    state: REFUND_STATES[state],
    refunds: BigInt(refunds),
    amount: String(amount),
    amountText: amountText(amount, token.symbol, decimalsOf(token)),
    oldestAt: timestampFromMs(oldestAt),
  };
}

function toDecision({ as, by, note, at }: NonNullable<Refund["decision"]>) {
  return { approved: as === "approved", by, note, at: timestampFromMs(at) };
}
