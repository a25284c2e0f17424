import { Code, ConnectError } from "@connectrpc/connect";
import type { Logger } from "pino";
import type { Config } from "../../config/config.ts";
import { GatewayError } from "../../core/errors.ts";
import { jobKeyText, OPERATOR_ORIGIN_METADATA } from "../../core/job-call.ts";
import { decodeJobCall } from "../../delivery/job-call-codec.ts";
import type { ResendCallRequest } from "../../gen/jobgate/v1/operator_pb.ts";
import type { ApiAddition } from "../../operator/methods.ts";
import { invalid, isCallId, notFound, readSignature } from "../../operator/requests.ts";
import type { CalledJob } from "../../store/contract/work-queue.ts";
import type { Store } from "../../store/store.ts";
import type { AcceptedCalls } from "./store/module.ts";

/** Name of the metadata with the call ID of the first JobCall. */
const RESENT_CALL_METADATA = "X-OPERATOR-RESENT-CALL-ID";
/** Time for which a request key names the call that it made. */
const KEY_MS = 24 * 60 * 60 * 1_000;
const REQUEST_KEY = /^[\x21-\x7e]{1,64}$/;

/** Returns the method of the operator's API that sends a JobCall once more, as a new, unpaid JobCall. */
export function resendOperation(parts: {
  readonly calls: AcceptedCalls;
  readonly store: Pick<Store, "findCallDetails" | "acceptOnce">;
  readonly configuration: () => Pick<Config, "serviceId" | "x402" | "webhooks">;
  /** @throws GatewayError for a job that takes no new JobCalls now */
  readonly admit: (job: CalledJob) => void;
  readonly logger: Logger;
}): ApiAddition {
  const { calls, store, configuration, admit, logger } = parts;

  /** Finds a JobCall that can be sent once more. @throws ConnectError NOT_FOUND, FAILED_PRECONDITION */
  async function findCall(callId: bigint) {
    const id = isCallId(callId) ? Number(callId) : 0;
    const [call, encoded] = await Promise.all([store.findCallDetails(id), calls.findAccepted(id)]);
    if (call === undefined) throw notFound("call", callId);
    if (call.state === "held" && call.origin === "x402")
      throw refused(`Call ${callId} is not paid yet: it is sent once it is.`);
    if (encoded === undefined)
      throw refused(`The body of call ${callId} is not kept: it was forgotten when the call ended.`);
    if (!isConfigured(call, configuration()))
      throw refused(
        `The job of call ${callId}, ${call.serviceId}/${call.jobId}, is not in the configuration.`,
      );
    return { ...call, ...decodeJobCall(encoded), origin: call.origin };
  }

  return {
    methods: {
      async resendCall({ callId, requestKey, ...request }: ResendCallRequest) {
        const signature = readSignature(request);
        if (!REQUEST_KEY.test(requestKey))
          throw invalid("request_key: expected 1 to 64 printable characters without a space.");
        const key = `resend ${requestKey}`;
        const earlier = await calls.findResent(key);
        // The first answer stands, whatever has become of the call and its job.
        if (earlier?.resent === String(callId)) return { callId: BigInt(earlier.callId), isNew: false };
        const { origin, serviceId, jobId, body, metadata } = await findCall(callId);
        admit({ origin, serviceId, jobId });
        const ofResend = { [OPERATOR_ORIGIN_METADATA]: "operator", [RESENT_CALL_METADATA]: String(callId) };
        const outcome = await store.acceptOnce(
          { origin: "operator", serviceId, jobId, body, metadata: { ...metadata, ...ofResend } },
          {
            keys: [{ key, identifies: true }],
            bodyHash: String(callId),
            windowMs: KEY_MS,
          },
        );
        if (outcome.kind === "conflict")
          throw invalid(
            `request_key: another call was resent with it. Expected a new one for call ${callId}.`,
          );
        // A resent call has no key that could be paused.
        if (!("callId" in outcome))
          throw new GatewayError(
            "queue_full",
            "The queue is full: store.max_pending is reached. Nothing was sent.",
          );
        const isNew = outcome.kind === "accepted";
        if (isNew)
          logger.warn(
            {
              callId: outcome.callId,
              resent: Number(callId),
              origin,
              job: `${serviceId}/${jobId}`,
              ...signature,
            },
            "call resent by the operator",
          );
        return { callId: BigInt(outcome.callId), isNew };
      },
    },
  };
}

function refused(message: string): ConnectError {
  return new ConnectError(message, Code.FailedPrecondition);
}

/** Reports whether a configuration has the job of a JobCall. A JobCall that was resent has a job of either gateway. */
function isConfigured(
  { origin, serviceId, jobId }: CalledJob,
  config: Pick<Config, "serviceId" | "x402" | "webhooks">,
): boolean {
  const { x402, webhooks } = config;
  const isSold = () => {
    // A program that makes the prices knows its jobs.
    if (x402 === undefined || x402.priceSource !== "map") return x402 !== undefined;
    const isNamed = (x402.jobs ?? []).some(
      (job) => job.serviceId === serviceId && BigInt(job.jobIndex) === jobId,
    );
    return isNamed || x402.jobPricing.has(jobKeyText(serviceId, Number(jobId)));
  };
  const isOfWebhook = () =>
    serviceId === config.serviceId && (webhooks?.endpoints ?? []).some((one) => one.jobId === jobId);
  return (origin !== "webhook" && isSold()) || (origin !== "x402" && isOfWebhook());
}
