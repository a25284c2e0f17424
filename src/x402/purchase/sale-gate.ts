import type { JobCall, JobKey } from "../../core/job-call.ts";

type RequestMetadata = NonNullable<JobCall["requestMetadata"]>;

/** A paid request, before its payment is verified. */
export interface Entering {
  readonly job: JobKey;
  /** Address of the client. */
  readonly client: string;
  /** Address whose money would move. */
  readonly payer: string;
}

/** A request that may go on. */
export interface Entered {
  /** Further metadata of its JobCall. */
  readonly metadata: RequestMetadata;
  /** Is called once the JobCall is queued, or the request refused. */
  leave(): void;
}

/** Rule of a part that can refuse a request to a job before its payment is verified. */
export interface SaleGate {
  /** Refuses a job that is not on sale now, whether or not its request has a payment. @throws GatewayError */
  requireOpen(job: JobKey): void;
  /** @returns undefined for a job that the rule is not about @throws GatewayError */
  enter(entering: Entering): Promise<Entered | undefined>;
}

/** Sells a job once every gate lets its request in. @throws GatewayError */
export async function passGates<Outcome>(
  [gate, ...others]: readonly SaleGate[],
  entering: Entering,
  sell: (metadata: RequestMetadata) => Promise<Outcome>,
): Promise<Outcome> {
  if (gate === undefined) return sell([]);
  const entered = await gate.enter(entering);
  try {
    return await passGates(others, entering, (metadata) => sell([...(entered?.metadata ?? []), ...metadata]));
  } finally {
    entered?.leave();
  }
}
