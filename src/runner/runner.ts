import { setTimeout as sleep } from "node:timers/promises";
import { create } from "@bufbuild/protobuf";
import { type ClientDuplexStream, status as Code, type ServiceError } from "@grpc/grpc-js";
import pLimit from "p-limit";
import * as proto from "../gen/jobgate/v1/runner_pb.ts";
import { ackFields, Fail, type Handler, type Job, nackFields, Retry, RunnerError, toCharge } from "./job.ts";

/** An ack, nack or extend request, which is sent until jobgate answers it. */
interface Request {
  readonly part: "acks" | "nacks" | "extends";
  readonly fields: { readonly callId: bigint; readonly leaseToken: string };
  /** Aborts when the request need not be sent any more. */
  readonly lost: AbortSignal;
  /** @param refusal empty if the request took effect */
  answer(refusal: string): void;
}

/** Refusals by LeaseStatus. INVALID_ARGUMENT brings its own text. */
const REFUSALS = ["unknown", "", "the lease expired or was released", "the JobCall was finished before"];
/** Bounds the time between two extensions, so that a lost lease is noticed soon. */
const EXTEND_MS = { min: 100, max: 15_000 };
/**
 * Bounds the time without an extension after which a lease is lost, because a busy machine or network delays answers.
 */
const LEASE_MS = { min: 10_000, max: 86_400_000 };
/** Longest wait before the next stream, and the wait before repeating a request that jobgate could not store. */
const PAUSE_MS = 500;
/** Parts of grpc-js's reasons that differ with each attempt, such as times, or that have no meaning for people. */
const NOISE = /No connection established\. Last error: | \(\d{4}-[^)]*Z\)|\.? Resolution note: $/g;
/** Codes that a retry would also get. */
const FINAL = [Code.UNAUTHENTICATED, Code.PERMISSION_DENIED, Code.INVALID_ARGUMENT, Code.UNIMPLEMENTED];
const ADVICE = "Check the token, the other options of run, and the version of jobgate.";

interface RunnerOptions {
  open(): ClientDuplexStream<proto.RunnerMessage, proto.GatewayMessage>;
  readonly handler: Handler;
  readonly address: string;
  readonly subscribe: Pick<proto.SubscribeRequest, "subscriber" | "maxInFlight" | "jobIds">;
  readonly logger: { info(message: string): void; warn(message: string): void };
}

/** Does jobs over one Work stream at a time, and reports their outcomes in batches. */
export class Runner {
  readonly #options: RunnerOptions;
  /** Bounds jobs across streams, because a new stream may bring jobs before the jobs of the last stream are over. */
  readonly #limit;
  /** Deliveries in progress: functions that extend the lease, by controllers that abort when the lease is lost. */
  readonly #deliveries = new Map<AbortController, () => Promise<void>>();
  readonly #queue: Request[] = [];
  readonly #sent = new Map<bigint, readonly Request[]>();
  readonly #over = new AbortController();
  #stream: ReturnType<RunnerOptions["open"]> | undefined;
  #flushing: NodeJS.Immediate | undefined;
  #connected = false;
  #stopping = false;
  #sequence = 0n;

  constructor(options: RunnerOptions) {
    this.#options = options;
    this.#limit = pLimit(options.subscribe.maxInFlight);
  }

  /** Resolves after {@link stop} once all jobs are finished. */
  async run(): Promise<void> {
    const { address, logger } = this.#options;
    const { signal } = this.#over;
    for (let told = ""; !signal.aborted; ) {
      const { code = Code.OK, details = "the stream ended" } = (await this.#work()) ?? {};
      this.#stream = undefined;
      if (FINAL.includes(code)) this.#giveUp(`${address} refuses this runner: ${details} ${ADVICE}`);
      if (signal.aborted) break;
      const what = `${this.#connected ? "disconnected from" : "cannot connect to"} ${address}`;
      const line = `${what}, trying again: ${details.replace(NOISE, "")}`;
      if (this.#connected || told !== line) logger.warn(line);
      told = line;
      await sleep(PAUSE_MS * Math.random(), undefined, { signal }).catch(() => undefined);
    }
    if (signal.reason instanceof RunnerError) throw signal.reason;
  }

  /** Takes no new jobs, and ends once all jobs are finished. A second call ends the runner at once. */
  stop(): void {
    if (this.#stopping) this.#giveUp("Stopped at once: unfinished JobCalls go to the next subscriber.");
    else this.#options.logger.info(`stopping: ${this.#deliveries.size} jobs in progress`);
    this.#stopping = true;
    this.#flushSoon();
  }

  #giveUp(reason: string): void {
    this.#over.abort(new RunnerError(reason));
    this.#stream?.cancel();
    for (const lost of this.#deliveries.keys()) lost.abort();
  }

  /** Resolves when a stream has ended, with the error that ended it. */
  #work(): Promise<ServiceError | undefined> {
    const { open, subscribe, address, logger } = this.#options;
    const stream = open();
    this.#stream = stream;
    this.#connected = false;
    this.#queue.unshift(...[...this.#sent.values()].flat());
    this.#sent.clear();
    this.#write([], subscribe);
    for (const extend of this.#deliveries.values()) void extend();
    this.#flushSoon();
    stream.once("metadata", () => {
      this.#connected = true;
      logger.info(`connected to ${address} as ${subscribe.subscriber}`);
    });
    stream.on("data", ({ jobCalls, statuses }) => {
      for (const answer of statuses) this.#answered(answer);
      for (const call of jobCalls) if (!this.#over.signal.aborted) void this.#handle(call);
    });
    return new Promise((resolve) => stream.on("error", resolve).once("end", resolve));
  }

  async #handle(call: proto.JobCall): Promise<void> {
    const { handler, logger } = this.#options;
    const { callId, leaseToken, leaseSecs, body, jobId, serviceId, metadata, attempt } = call;
    const lost = new AbortController();
    let state: "idle" | "extending" | "finished" = "idle";
    let progress = {};
    let charge: ReturnType<typeof toCharge>;
    const extend = async (): Promise<void> => {
      if (state !== "idle" || lost.signal.aborted) return;
      state = "extending";
      const sent = progress;
      const fields = { callId, leaseToken, ...sent, chargeSoFar: charge };
      const refusal = await this.#ask("extends", fields, lost);
      if (state !== "extending" || lost.signal.aborted) return;
      state = "idle";
      if (refusal !== "") return lose(refusal);
      expiry.refresh();
      if (progress !== sent) await extend();
    };
    this.#deliveries.set(lost, extend);
    const leaseMs = leaseSecs * 1000;
    const timer = setInterval(() => void extend(), within(EXTEND_MS, leaseMs / 2));
    // Without an answer from jobgate, only this timer detects that another runner may have the JobCall.
    const expiry = setTimeout(() => lose("jobgate did not extend it in time"), within(LEASE_MS, leaseMs));
    const lose = (reason: string): void => {
      if (lost.signal.aborted) return;
      lost.abort();
      logger.warn(`lease of JobCall ${callId} lost: ${reason}`);
    };
    const job = {
      ...{ callId: Number(callId), jobId, serviceId, metadata, attempt, signal: lost.signal },
      body: Buffer.from(body.buffer, body.byteOffset, body.byteLength),
      progress(percent: number, text = "") {
        if (Number.isNaN(percent)) throw new RangeError("percent is not a number");
        const value = Math.floor(within({ min: 0, max: 100 }, percent));
        progress = { progress: { percent: value, text: String(text).slice(0, 200) } };
        void extend();
      },
      // The charge is sent with the next extension, because it is only needed early if the payment expires before the job
      // ends.
      charge(amount: Parameters<Job["charge"]>[0]) {
        charge = toCharge(amount, metadata);
      },
    };
    const outcome = await this.#limit(() => (lost.signal.aborted ? undefined : handler(job)))
      .then((returned) => ({ part: "acks", fields: { ...ackFields(returned), charge } }) as const)
      .catch((error: unknown) => {
        if (!(error instanceof Fail || error instanceof Retry || lost.signal.aborted))
          logger.warn(`JobCall ${callId} is retried: ${error instanceof Error ? error.stack : error}`);
        return { part: "nacks", fields: nackFields(error) } as const;
      });
    state = "finished";
    clearInterval(timer);
    const fields = { callId, leaseToken, ...outcome.fields };
    const refusal = lost.signal.aborted ? "" : await this.#ask(outcome.part, fields, lost);
    if (refusal !== "") logger.warn(`outcome of JobCall ${callId} refused: ${refusal}`);
    clearTimeout(expiry);
    this.#deliveries.delete(lost);
    this.#flushSoon();
  }

  /** Resolves with the reason of a refusal. Resolves with "" if the request took effect, and if the lease is lost. */
  #ask(part: Request["part"], fields: Request["fields"], { signal: lost }: AbortController): Promise<string> {
    const answered = new AbortController();
    return new Promise<string>((answer) => {
      lost.addEventListener("abort", () => answer(""), { signal: answered.signal });
      this.#send({ part, fields, lost, answer });
    }).finally(() => answered.abort());
  }

  #send(request: Request): void {
    this.#queue.push(request);
    this.#flushSoon();
  }

  /** Waits for the end of this tick, so that outcomes that are ready together share a message. */
  #flushSoon(): void {
    this.#flushing ??= setImmediate(() => {
      this.#flushing = undefined;
      if (this.#over.signal.aborted) return;
      if (this.#stopping) this.#write([]);
      // This many results of full size fit in one message.
      while (this.#stream && this.#queue.length > 0) this.#write(this.#queue.splice(0, 15));
      if (!this.#stopping || this.#deliveries.size > 0) return;
      this.#over.abort();
      if (this.#connected) this.#stream?.end();
      else this.#stream?.cancel();
    });
  }

  #write(queued: readonly Request[], subscribe?: RunnerOptions["subscribe"]): void {
    const of = (part: Request["part"]) => queued.filter((one) => one.part === part && !one.lost.aborted);
    const sent = [...of("acks"), ...of("nacks"), ...of("extends")];
    if (sent.length > 0) this.#sent.set(++this.#sequence, sent);
    const fields = (part: Request["part"]) => of(part).map((request) => request.fields);
    const settings = { ...(subscribe && { subscribe }), ...(this.#stopping && { maxInFlight: 0 }) };
    const outcomes = { acks: fields("acks"), nacks: fields("nacks"), extends: fields("extends") };
    const init = { ...settings, ...outcomes, sequence: this.#sequence };
    this.#stream?.write(create(proto.RunnerMessageSchema, init));
  }

  #answered({ sequence, errorCode, errorMessage, ...lists }: proto.Statuses): void {
    const statuses = [...lists.acks, ...lists.nacks, ...lists.extends];
    const sent = this.#sent.get(sequence) ?? [];
    this.#sent.delete(sequence);
    for (const [index, request] of sent.entries()) {
      if (errorCode === Code.OK) request.answer(REFUSALS[statuses[index] ?? 0] ?? errorMessage);
      else setTimeout(() => this.#send(request), PAUSE_MS);
    }
  }
}

const within = ({ min, max }: { readonly min: number; readonly max: number }, value: number) =>
  Math.min(Math.max(value, min), max);
