import { Code, ConnectError } from "@connectrpc/connect";
import type { Logger } from "pino";
import type { Config } from "../../config/config.ts";
import type {
  ApproveRefundRequest,
  DeclineRefundRequest,
  ListRefundsRequest,
} from "../../gen/jobgate/v1/operator_pb.ts";
import { nameIn, REFUND_STATES, toRefund } from "../../operator/messages.ts";
import type { OperatorMethods } from "../../operator/methods.ts";
import { invalid, isCallId, notFound, readPage, readSignature } from "../../operator/requests.ts";
import type { RefundDecision } from "../../store/contract/refund-ledger.ts";
import type { Store } from "../../store/store.ts";

/** The methods of the operator's service that are about refunds. */
export function refundMethods(parts: {
  readonly store: Pick<Store, "listRefunds" | "decideRefund">;
  readonly configuration: () => Config;
  readonly logger: Logger;
}): OperatorMethods {
  const { store, logger, configuration } = parts;

  async function decide(request: ApproveRefundRequest | DeclineRefundRequest, as: RefundDecision["as"]) {
    const { callId } = request;
    const decision = { as, ...readSignature(request) };
    const found = isCallId(callId) ? await store.decideRefund(Number(callId), decision) : undefined;
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

  return {
    async listRefunds(request: ListRefundsRequest) {
      const state = nameIn(REFUND_STATES, request.state);
      if (state === undefined && request.state !== 0) throw invalid("state: expected a RefundState.");
      const { items, nextPageToken } = await readPage(request, async (range) => ({
        items: await store.listRefunds({ state, ...range }),
      }));
      return { refunds: items.map((refund) => toRefund(refund, configuration)), nextPageToken };
    },
    approveRefund: (request) => decide(request, "approved"),
    declineRefund: (request) => decide(request, "declined"),
  };
}
