import type { PaymentRequired } from "@x402/core/types";
import type { Job } from "../../../src/config/config.ts";
import { A2a } from "../../../src/parts/a2a/a2a.ts";
import type { LoadX402Parts } from "../../../src/x402/part.ts";
import type { PaidParts } from "../../e2e/paid-parts.ts";
import { accounts, type TestAccount } from "../../helpers/accounts.ts";
import { signV2Payment } from "../../helpers/clients.ts";
import { type RpcAnswer, sendRpc } from "../../helpers/mcp.ts";
import { startAnotherGateway, type TestGateway } from "../../x402/gateway-harness.ts";
import { soldByA2a } from "./tables.ts";

type Json = Record<string, unknown>;

/** A task as version 0.3 shows it. */
export interface ShownTask {
  readonly id: string;
  readonly contextId: string;
  readonly status: {
    readonly state: string;
    readonly message: { readonly metadata: Json; readonly parts: Json[] };
  };
  readonly artifacts?: readonly { readonly parts: readonly Json[]; readonly metadata?: Json }[];
  readonly metadata?: { readonly "jobgate/call": Json };
}

/** Starts a shop that sells over A2A. */
export function startShop(
  { facilitator }: { readonly facilitator: Pick<PaidParts["facilitator"], "url"> },
  options: { readonly jobs?: Job[]; readonly maxWaitMs?: number; readonly maxInputBytes?: number } = {},
  more: Omit<Parameters<typeof startAnotherGateway>[0] & object, "config"> = {},
): Promise<TestGateway> {
  const { jobs, ...settings } = options;
  const parts: LoadX402Parts = async (services) => [new A2a(services, settings)];
  return startAnotherGateway({
    config: { facilitatorUrl: facilitator.url, parts: soldByA2a(), ...(jobs && { jobs }) },
    parts,
    ...more,
  });
}

/** A client of A2A 0.3 at the URL of a shop. */
export class Agent {
  readonly #url: string;

  constructor({ url }: Pick<TestGateway, "url">) {
    this.#url = `${url}/a2a`;
  }

  call(
    method: string,
    params: Json = {},
    headers: Readonly<Record<string, string>> = {},
  ): Promise<RpcAnswer> {
    return sendRpc(this.#url, method, params, headers);
  }

  /** Sends a message, and returns the task. Throws for an error. */
  async send(message: Json, configuration: Json = {}): Promise<ShownTask> {
    const answer = await this.try(message, configuration);
    if (answer.error !== undefined) throw new Error(JSON.stringify(answer.error));
    return answer.result as unknown as ShownTask;
  }

  try(message: Json, configuration: Json = {}): Promise<RpcAnswer> {
    return this.call("message/send", { message: messageOf(message), configuration });
  }

  /** Begins a task for a text. */
  ask(text = "work", skillId = "job-1-0"): Promise<ShownTask> {
    return this.send({ parts: [{ kind: "text", text }], metadata: { skillId } });
  }

  async get(id: string): Promise<ShownTask> {
    return (await this.call("tasks/get", { id })).result as unknown as ShownTask;
  }
}

export function messageOf(message: Json): Json {
  return {
    kind: "message",
    messageId: crypto.randomUUID(),
    role: "user",
    parts: [{ kind: "text", text: "Here is the payment." }],
    ...message,
  };
}

export const metadataOf = ({ status }: ShownTask) => status.message.metadata;

/** Signs a payment for the offers of a task, as a message that pays for the task. */
export async function paymentFor(task: ShownTask, account: TestAccount = accounts.payer): Promise<Json> {
  const offer = metadataOf(task)["x402.payment.required"] as PaymentRequired;
  const { payload } = await signV2Payment({ offer, account });
  return {
    taskId: task.id,
    metadata: { "x402.payment.status": "payment-submitted", "x402.payment.payload": payload },
  };
}
