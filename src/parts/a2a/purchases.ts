import { GatewayError } from "../../core/errors.ts";
import { equalJobs, type JobKey } from "../../core/job-call.ts";
import type { CallState } from "../../store/contract/call-lookup.ts";
import type { ListedJob } from "../../x402/jobs/listing.ts";
import { callName } from "../../x402/jobs/seller.ts";
import { paramsAs, RPC, RpcError, refusalError } from "../../x402/protocols/json-rpc.ts";
import { headersIn, messageRequest } from "../../x402/protocols/message-request.ts";
import type { Meta } from "../../x402/protocols/protocol.ts";
import { chargedNothing, purchaseRefusalOf } from "../../x402/purchase/job-route.ts";
import type { AcceptedPayment } from "../../x402/purchase/purchase.ts";
import { PaymentRefusal } from "../../x402/purchase/refused-payments.ts";
import type { Services } from "../../x402/services.ts";
import type { Shop } from "../../x402/shop.ts";
import { type Offer, toRequirements } from "../../x402/wire/offer.ts";
import { type Context, logUnexpected } from "./context.ts";
import type { KeptInputs, TaskInput } from "./kept-inputs.ts";
import type { PaidTask } from "./paid-tasks.ts";
import { PARAMS, type SentMessage } from "./params.ts";
import { EXTENSIONS, errorCodeOf, type PaymentStatus, TaskPayment, X402 } from "./payments.ts";
import type { Task, TaskIds } from "./task-ids.ts";
import { hashOf, inputOf } from "./task-input.ts";
import type { TaskSales } from "./task-sales.ts";
import type { TaskView } from "./task-view.ts";
import { type FoundTask, type Tasks, undecided } from "./tasks.ts";

/** Largest number of job names in an error. */
const MAX_NAMED = 20;
const PAY = `sign one of the offers in ${X402.required}, and send the payment as ${X402.payload} with this taskId`;

/** Outcome of a message. `call` is undefined if the JobCall could not be read. */
export type Sent =
  | { readonly kind: "shown"; readonly view: TaskView }
  | (PaidTask & { readonly kind: "paid"; readonly call: CallState | undefined });

interface Parts {
  readonly services: Services;
  readonly shop: Shop;
  readonly tasks: Tasks;
  readonly ids: TaskIds;
  readonly inputs: KeptInputs;
  readonly sales: TaskSales;
}

/** Clients' messages: the first message of a task requests a job, and a later message pays for it. */
export class Purchases {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** @throws RpcError */
  async send(context: Context): Promise<Sent> {
    const { services, shop, tasks, ids } = this.#parts;
    const { params, exactParams } = context.message;
    const { message: sent, metadata } = paramsAs(PARAMS.message, params);
    const message = { ...sent, parts: paramsAs(PARAMS.message, exactParams).message.parts };
    const payment = new TaskPayment(message.metadata, services.methods);
    payment.requireStatus();
    const headers = headersIn(message.metadata, "message.metadata");
    if (message.taskId === undefined) {
      const job = await this.#chosenJob({ ...metadata, ...message.metadata });
      const input = await shop.checkout.requestOf(context.request, payment, () =>
        inputOf(message.parts, job),
      );
      const { serviceId, jobIndex } = job;
      const task = ids.make({ serviceId, jobIndex }, hashOf(input), message.contextId);
      return this.#buy(context, task, { input, headers }, payment);
    }
    const found = await tasks.find(message.taskId, context.request);
    const { task } = found;
    if (message.contextId !== undefined && message.contextId !== task.contextId)
      throw new RpcError(
        RPC.invalidParams,
        `message.contextId is ${JSON.stringify(message.contextId)}; expected that of the task, ${JSON.stringify(task.contextId)}.`,
      );
    // A task that is already being paid for, or was cancelled, accepts no other payment.
    if (found.kind === "paid") return this.#paid(task, found.call);
    if (found.kind === "canceled") return shown(await tasks.view(found, context));
    if (found.kind === "undecided" && !payment.carriesPayment()) return shown(undecided(task));
    await this.#requireSkill(found, { ...metadata, ...message.metadata });
    if (payment.isRejected) {
      const text = `The payment was rejected, and nothing was charged. To buy the job after all, ${PAY}.`;
      return shown(this.#unpaid(task, "payment-rejected", text));
    }
    const input = await this.#inputOf(task, message, headers);
    if (input !== undefined) return this.#buy(context, task, input, payment);
    // jobgate continues to decide the payment, whatever the client sends.
    if (found.kind === "undecided") return shown(undecided(task));
    throw new RpcError(
      RPC.invalidParams,
      "The input of this task is no longer kept, and message.parts are not that input: send the parts of the task's first message again, together with the payment. This message charged nothing.",
    );
  }

  /** Returns an unpaid task, with its offers if its input is kept. */
  async show(context: Context, task: Task): Promise<TaskView> {
    const kept = this.#parts.inputs.find(task.id);
    const text =
      "Payment is required, and the input of the task is no longer kept: send it again with the payment.";
    const unpaid = this.#unpaid(task, "payment-required", text);
    if (kept === undefined) return unpaid;
    const payment = new TaskPayment({}, this.#parts.services.methods);
    const sent = await this.#buy(context, task, kept, payment).catch(() => undefined);
    return sent?.kind === "shown" ? sent.view : unpaid;
  }

  /** @throws RpcError for a message that does not name a job for sale */
  async #chosenJob({ skillId }: Meta): Promise<ListedJob> {
    const jobs = await this.#parts.shop.listing.jobs();
    const [only] = jobs;
    if (skillId === undefined && only !== undefined && jobs.length === 1) return only;
    const job = jobs.find((listed) => callName(listed) === skillId);
    if (job !== undefined) return job;
    const given = skillId === undefined ? "is missing" : `is ${JSON.stringify(skillId).slice(0, 100)}`;
    const names = jobs.slice(0, MAX_NAMED).map(callName).join(", ");
    const more = jobs.length > MAX_NAMED ? ` and ${jobs.length - MAX_NAMED} more of the agent card` : "";
    throw new RpcError(
      RPC.invalidParams,
      jobs.length === 0
        ? "No job is for sale."
        : `message.metadata.skillId ${given}; expected one of ${names}${more}.`,
    );
  }

  /** @throws RpcError for a message about an open task that names no job, or another job */
  async #requireSkill({ kind, task }: FoundTask, { skillId }: Meta): Promise<void> {
    if (skillId === undefined || kind !== "open") return;
    const named = (await this.#parts.shop.listing.jobs()).find((listed) => callName(listed) === skillId);
    if (named !== undefined && equalJobs(named, task.job)) return;
    throw new RpcError(
      RPC.invalidParams,
      `message.metadata.skillId is ${JSON.stringify(skillId)}; expected the task's skill, or none. This message charged nothing.`,
    );
  }

  /** Returns the input of a task, from the message or from the kept inputs; undefined if neither has it. */
  async #inputOf(
    task: Task,
    message: SentMessage,
    headers: TaskInput["headers"],
  ): Promise<TaskInput | undefined> {
    const kept = this.#parts.inputs.find(task.id);
    const jobs = await this.#parts.shop.listing.jobs();
    const job = jobs.find((listed) => equalJobs(listed, task.job));
    const again = job && sentAgain(task, message, job);
    const input = again ?? kept?.input;
    return input && { input, headers: { ...kept?.headers, ...headers } };
  }

  async #buy(context: Context, task: Task, input: TaskInput, payment: TaskPayment): Promise<Sent> {
    const { shop, inputs, sales } = this.#parts;
    const { job } = task;
    const request = messageRequest(context.request, input.headers, input.input);
    let bought: AcceptedPayment;
    try {
      const sale = await sales.buy(request.id, task, () => shop.checkout.buy(request, job, payment));
      if (sale.kind === "unpaid") {
        inputs.keep(task.id, input);
        shop.refusals.count("payment_required", job);
        const required = await this.#required(context, job, sale.unpaid.offers, "Payment is required");
        const text = `Payment is required: ${PAY}.`;
        return shown(this.#unpaid(task, "payment-required", text, { [X402.required]: required }));
      }
      bought = sale.payment;
    } catch (error) {
      if (error instanceof RpcError) throw error;
      return this.#refused(context, task, input, payment, error);
    }
    return this.#accepted(context, task, bought);
  }

  /** The job is paid for, so an error from here on must not look like a refusal. */
  async #accepted(context: Context, task: Task, bought: AcceptedPayment): Promise<Sent> {
    const { services, tasks, inputs } = this.#parts;
    const { callId, settlement, takenAt } = bought;
    inputs.forget(task.id);
    try {
      // The payment may have bought the job as another task, or over another protocol.
      if (bought.replayed) await tasks.add(task, callId);
      const call = await services.store.findCall(callId);
      if (call !== undefined) return this.#paid(task, call);
    } catch (error) {
      logUnexpected(error, context, services);
    }
    const status: PaymentStatus = settlement === undefined ? "payment-verified" : "payment-completed";
    const payment = { [X402.status]: status, [X402.receipts]: settlement === undefined ? [] : [settlement] };
    const text = "The job is paid for, and goes on.";
    const ofTask = { task, at: takenAt, artifacts: [], metadata: undefined };
    const view: TaskView = { ...ofTask, state: "working", text, payment };
    return { kind: "paid", task, callId, payer: bought.payment.payer, call: undefined, view };
  }

  #paid(task: Task, call: CallState): Sent {
    return { kind: "paid", call, ...this.#parts.tasks.paid(task, call) };
  }

  /** @throws RpcError the refusal of a message without a payment */
  async #refused(
    context: Context,
    task: Task,
    input: TaskInput,
    payment: TaskPayment,
    error: unknown,
  ): Promise<Sent> {
    const { shop, services, tasks, inputs } = this.#parts;
    const refusal = purchaseRefusalOf(error);
    logUnexpected(error, context, services);
    shop.refusals.add(refusal, { request: context.request, job: task.job, protocol: payment });
    const { code, message, details } = refusal;
    const { problem: _, ...more } = details;
    const { serviceId, jobIndex } = task.job;
    const ids = refusal.status === 403 ? { service_id: Number(serviceId), job_index: jobIndex } : {};
    const told = { code, ...chargedNothing(code), ...ids, ...more };
    if (!payment.carriesPayment())
      throw refusalError(new GatewayError(code, message, { ...refusal, details: told }));
    // The task's next payment does not inherit the headers of this payment.
    if (inputs.find(task.id) === undefined) inputs.keep(task.id, input);
    // Another payment may have paid for the task in the meantime, or its client may have cancelled it.
    const found: FoundTask | undefined = await tasks.find(task.id, context.request).catch(() => undefined);
    if (found?.kind === "paid") return this.#paid(task, found.call);
    if (found?.kind === "canceled") return shown(await tasks.view(found, context));
    const failed: Meta = { [X402.error]: errorCodeOf(refusal), "jobgate/refusal": told };
    if (found?.kind === "undecided" || (told.charged !== false && refusal.retryable)) {
      const view = undecided(task);
      return shown({ ...view, text: message, payment: { ...view.payment, ...failed } });
    }
    const offers =
      refusal instanceof PaymentRefusal
        ? {
            ...(refusal.offers.length > 0 && {
              [X402.required]: await this.#required(context, task.job, refusal.offers, message),
            }),
            ...(refusal.settled && { [X402.receipts]: [refusal.settled.settlement] }),
          }
        : {};
    return shown(this.#unpaid(task, "payment-failed", message, { ...failed, ...offers }));
  }

  #unpaid(task: Task, status: PaymentStatus, text: string, more: Meta = {}): TaskView {
    const payment = { [X402.status]: status, ...more };
    const at = this.#parts.services.clock();
    return { task, state: "input-required", at, text, payment, artifacts: [], metadata: undefined };
  }

  /** Returns how to pay, in the version of x402 that the client's extension has. */
  async #required(
    { extensions }: Context,
    job: JobKey,
    offers: readonly Offer[],
    error: string,
  ): Promise<object> {
    const { shop, services } = this.#parts;
    const description = shop.descriptions.withOffers(job, offers);
    if (extensions.includes(EXTENSIONS.v01) && !extensions.includes(EXTENSIONS.v02))
      for (const version of services.methods.versions.added) {
        const accepts = offers.flatMap((offer) => version.requirementsOf(offer, description) ?? []);
        if (accepts.length > 0) return { x402Version: version.number, error, accepts };
      }
    return {
      x402Version: 2,
      error,
      resource: description.resource,
      accepts: offers.map(toRequirements),
      extensions: { ...description.extensions, ...(await shop.extensions.ofOffers(offers)) },
    };
  }
}

/** Returns the input of a task if the parts of a message are that input. */
function sentAgain(task: Task, { parts }: SentMessage, job: ListedJob): TaskInput["input"] | undefined {
  try {
    const input = inputOf(parts, job);
    return hashOf(input) === task.inputHash ? input : undefined;
  } catch {
    return undefined;
  }
}

function shown(view: TaskView): Sent {
  return { kind: "shown", view };
}
