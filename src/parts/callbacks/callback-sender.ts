import { randomUUID } from "node:crypto";
import type { Logger } from "pino";
import { BackgroundLoop } from "../../core/background-loop.ts";
import type { BackgroundService } from "../../core/background-service.ts";
import { type Clock, monotonicClock, systemClock } from "../../core/clock.ts";
import type { EventHub, EventKind } from "../../core/events.ts";
import { LeaseLock, type Locks } from "../../core/lease-lock.ts";
import { type SigningKey, toSigningKey } from "../../core/standard-webhooks.ts";
import { within } from "../../core/waiting.ts";
import type { Store } from "../../store/store.ts";
import { createResolver, guardedLookup, type NameResolver } from "../outbound/guarded-lookup.ts";
import type { HttpOutcome } from "../outbound/http-answer.ts";
import type { HttpClient, HttpExchange } from "../outbound/http-client.ts";
import { readOutcome, toCallbackOutcome } from "./callback-answer.ts";
import { CallbackGuard, type CallbackRules } from "./callback-guard.ts";
import type { CallbackKeys } from "./callback-keys.ts";
import { type CallbackMessage, callbackHeaders, testMessage, toMessage } from "./callback-request.ts";
import type { CallbackConfig } from "./config.ts";
import { CallbackTries } from "./gauges.ts";
import { HostPauses } from "./host-pauses.ts";
import type { Callback, CallbackLedger, CallbackOutcome } from "./store/ledger.ts";

/** Lock of the process that sends. */
const LOCK = "callbacks";
const HELD_MS = 30_000;
const RENEW_MS = 10_000;
/** Time for one request, its whole answer included. */
const TIMEOUT_MS = 10_000;
const ROUND_MS = 1_000;
/** Delay from an event to the round that it starts. Events can come by the thousand, and few of them add a callback. */
const WAKE_MS = 100;
/** Time between two rounds while no target is configured. Such rounds only expire pending callbacks. */
const IDLE_MS = 60_000;
/** Time for requests in progress to end when jobgate stops. */
const DRAIN_MS = 2_000;
/** Largest number of hosts that are called at the same time. */
const MAX_HOSTS = 32;
/** Largest number of a host's callbacks that are read at once. */
const PER_HOST = 16;
/**
 * Events for which buyers get callbacks. If the charge of a deferred payment ends a call, the next round sends the callback.
 */
const ENDS = ["acked", "deadLettered", "partChanged"] as const satisfies readonly EventKind[];
/** Largest part of an answer that is read. Only its status is used. */
const ANSWER_BYTES = 65_536;

/** Fields of the configuration that callbacks use. */
export interface CallbackTargets {
  /** URLs of the operator. */
  readonly endpoints: readonly CallbackConfig[];
  /** URLs that buyers may give; undefined if they cannot give URLs. */
  readonly buyers: CallbackRules | undefined;
}

interface Parts {
  readonly ledger: Pick<CallbackLedger, "useCallbackEndpoints" | "listDueCallbacks" | "endCallback">;
  readonly store: Pick<Store, "isShared"> & Locks;
  readonly keys: CallbackKeys;
  /** Returns the URL of a paid call. */
  readonly callUrl: ((callId: number) => string) | undefined;
  readonly events: EventHub;
  readonly logger: Logger;
  /** Wall clock. */
  readonly clock?: Clock;
  readonly resolver?: NameResolver;
  /** Default: 10 s. */
  readonly timeoutMs?: number;
}

/** A URL that may be called, and the signing keys that its owner expects. */
interface Target {
  readonly url: string;
  readonly keys: readonly SigningKey[];
  /** Undefined if the URL is the operator's own, which may have any address. */
  readonly guard: CallbackGuard | undefined;
}

/**
 * Sends callbacks to operators and buyers. One process sends at a time, with one request at a time for each host. After a
 * crash, the sender continues from the store. A callback is pending until an answer is recorded, so it is sent at least
 * once.
 */
export class CallbackSender implements BackgroundService {
  readonly tries = new CallbackTries();
  readonly #parts: Parts;
  readonly #clock: Clock;
  readonly #resolver: NameResolver;
  readonly #timeoutMs: number;
  readonly #pauses = new HostPauses(monotonicClock);
  readonly #lock: LeaseLock;
  readonly #loop: BackgroundLoop;
  /** Runs by host. */
  readonly #running = new Map<string, Promise<void>>();
  readonly #requests = new Set<HttpExchange>();
  #keysByUrl: ReadonlyMap<string, readonly SigningKey[] | undefined> = new Map();
  #guard: CallbackGuard | undefined;
  #unsubscribe = () => {};

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#clock = parts.clock ?? systemClock;
    this.#timeoutMs = parts.timeoutMs ?? TIMEOUT_MS;
    this.#resolver = parts.resolver ?? createResolver();
    const { store: locks, logger } = parts;
    this.#lock = new LeaseLock({
      locks,
      name: LOCK,
      owner: randomUUID(),
      heldMs: HELD_MS,
      renewMs: RENEW_MS,
    });
    this.#loop = new BackgroundLoop({
      step: () => this.#step(),
      retryMs: ROUND_MS,
      onTrouble: (error) => logger.warn({ err: error }, "could not send callbacks; trying again"),
      onRecovery: () => logger.info("callbacks are sent again"),
    });
  }

  get urls(): readonly string[] {
    return [...this.#keysByUrl.keys()];
  }

  /**
   * Sends callbacks to these URLs from now on. Callbacks that wait for another URL are given up. Changes nothing if the
   * store cannot save the URLs.
   */
  async use({ endpoints, buyers }: CallbackTargets): Promise<void> {
    const keysByUrl = new Map(
      endpoints.map(({ url, secrets }) => [
        url,
        secrets.length === 0 ? undefined : secrets.flatMap((secret) => toSigningKey(secret) ?? []),
      ]),
    );
    let used = this.#keysByUrl;
    // A callback to a new URL can be due before the store has answered.
    this.#keysByUrl = new Map([...keysByUrl, ...used]);
    try {
      await this.#parts.ledger.useCallbackEndpoints(endpoints);
      used = keysByUrl;
    } finally {
      this.#keysByUrl = used;
    }
    this.#guard = buyers && new CallbackGuard(buyers);
    this.#unsubscribe();
    this.#unsubscribe = this.#parts.events.subscribe(() => this.#loop.wake(WAKE_MS), this.#calledFor());
    this.#loop.wake();
  }

  async start(): Promise<void> {
    await this.#loop.start();
  }

  async stop(): Promise<void> {
    this.#unsubscribe();
    await this.#loop.stop();
    await within(DRAIN_MS, Promise.all(this.#running.values()));
    for (const request of this.#requests) request.abort();
    await Promise.all(this.#running.values());
    await this.#lock.giveUp(this.#parts.logger);
  }

  /** Sends the callbacks that are due. */
  poke(): void {
    this.#loop.wake();
  }

  /** Sends one test message to a URL of the operator. @returns the reason if the message could not be delivered */
  async test(url: string): Promise<string | undefined> {
    const target = { url, keys: this.#keysByUrl.get(url) ?? this.#parts.keys.keys, guard: undefined };
    const client = await this.#client(target);
    try {
      const outcome = await this.#post(client, target, testMessage(this.#clock()));
      return outcome === undefined ? "jobgate stops" : readOutcome(outcome, this.#clock()).reason;
    } finally {
      await client.close();
    }
  }

  /** @returns time until the next step */
  async #step(): Promise<number> {
    if ((await this.#lock.hold()) && this.#mayBegin()) await this.#round();
    return this.#callsAnybody() ? ROUND_MS : IDLE_MS;
  }

  /** Returns the kinds of events for which any receiver gets callbacks. */
  #calledFor(): readonly EventKind[] {
    if (this.#keysByUrl.size > 0) return [...ENDS, "paymentDecided"];
    return this.#guard === undefined ? [] : ENDS;
  }

  #callsAnybody(): boolean {
    return this.#keysByUrl.size > 0 || this.#guard !== undefined;
  }

  /** Checks that a request would end before another process may send. */
  #mayBegin(): boolean {
    return !this.#loop.isStopped && this.#lock.leftMs > this.#timeoutMs;
  }

  /**
   * Checks that no failover can lose the callbacks that were just read. Otherwise a URL would be notified of an event that
   * the store has lost, and again when the event happens again.
   */
  async #areDurable(): Promise<boolean> {
    return !this.#parts.store.isShared || (await this.#lock.renew());
  }

  /** Starts a run for each host that has due callbacks. */
  async #round(): Promise<void> {
    let after = "";
    do {
      const page = { hosts: MAX_HOSTS, perHost: PER_HOST, after };
      // The list may still contain callbacks that a run has recorded in the meantime.
      const busy = new Set(this.#running.keys());
      const due = byHost(await this.#parts.ledger.listDueCallbacks(page));
      const free = [...due].filter(([host]) => !busy.has(host) && this.#pauses.isOver(host));
      if (free.length > 0 && !(await this.#areDurable())) return;
      for (const [host, callbacks] of free) {
        if (this.#running.size >= MAX_HOSTS) return;
        const run = this.#callHost(host, callbacks).finally(() => {
          this.#running.delete(host);
          this.#loop.wake();
        });
        this.#running.set(host, run);
      }
      after = due.size < MAX_HOSTS ? "" : ([...due.keys()].at(-1) ?? "");
    } while (after !== "" && !this.#loop.isStopped);
  }

  /** Sends one callback after the other, until the host fails. Never rejects. */
  async #callHost(host: string, callbacks: readonly Callback[]): Promise<void> {
    const clients = new Map<string, HttpClient>();
    try {
      for (const callback of callbacks) {
        if (!this.#mayBegin() || !this.#pauses.isOver(host)) return;
        if (!(await this.#send(callback, clients))) return;
      }
    } catch (error) {
      this.#parts.logger.warn({ err: error, host }, "could not record a callback; it is sent again");
      this.#pauses.failed(host);
    } finally {
      await Promise.all([...clients.values()].map((client) => client.close()));
    }
  }

  /** @returns false when jobgate stops */
  async #send(callback: Callback, clients: Map<string, HttpClient>): Promise<boolean> {
    const { callUrl } = this.#parts;
    const target = this.#targetOf(callback);
    if (typeof target === "string") {
      await this.#end(callback, { kind: "dead", reason: target });
      return true;
    }
    const client = clients.get(callback.url) ?? (await this.#client(target));
    clients.set(callback.url, client);
    const outcome = await this.#post(client, target, toMessage(callback, callUrl));
    if (outcome === undefined) return false;
    const read = readOutcome(outcome, this.#clock());
    if (read.isHostUp) this.#pauses.succeeded(callback.host);
    else this.#pauses.failed(callback.host);
    await this.#end(callback, toCallbackOutcome(read, callback.attempts));
    return true;
  }

  /** @returns the target, or the reason why it must not be called */
  #targetOf({ url, isBuyers }: Callback): Target | string {
    const own = this.#parts.keys.keys;
    if (!isBuyers) {
      if (!this.#keysByUrl.has(url)) return "the configuration no longer has this URL";
      return { url, keys: this.#keysByUrl.get(url) ?? own, guard: undefined };
    }
    const guard = this.#guard;
    const parsed = guard?.parse(url);
    if (guard === undefined || parsed === undefined) return "the configuration no longer allows Callback-URL";
    return "problem" in parsed ? `Callback-URL ${parsed.problem}` : { url, keys: own, guard };
  }

  /**
   * Loads the HTTP client with the first callback, because the client takes 7 MB, and most gateways send no callbacks.
   */
  async #client({ url, guard }: Target): Promise<HttpClient> {
    const { HttpClient } = await import("../outbound/http-client.ts");
    return new HttpClient({
      ...{ url, concurrency: 1, timeoutMs: this.#timeoutMs },
      lookup: guard && guardedLookup(guard, this.#resolver),
    });
  }

  async #post(
    client: HttpClient,
    { keys }: Target,
    message: CallbackMessage,
  ): Promise<HttpOutcome | undefined> {
    const headers = callbackHeaders(message, keys, this.#clock());
    const bodyLimit = () => ANSWER_BYTES;
    const request = client.send({ method: "POST", headers, body: message.body, bodyLimit });
    this.#requests.add(request);
    const outcome = await request.outcome;
    this.#requests.delete(request);
    return outcome;
  }

  async #end({ id, attempts, event, host }: Callback, outcome: CallbackOutcome): Promise<void> {
    const { ledger, logger } = this.#parts;
    const callback = await ledger.endCallback(id, attempts, outcome);
    if (callback === undefined) return;
    const became = callback.state === "pending" ? "failed" : callback.state;
    this.tries.count(event, became);
    const { callId, reason } = callback;
    if (became === "dead")
      logger.warn(
        { callback: id, callId, event, host, reason },
        "a callback was given up: see jobgate callbacks list",
      );
  }
}

function byHost(callbacks: readonly Callback[]): ReadonlyMap<string, readonly Callback[]> {
  const groups = new Map<string, Callback[]>();
  for (const callback of callbacks) {
    const group = groups.get(callback.host);
    if (group === undefined) groups.set(callback.host, [callback]);
    else group.push(callback);
  }
  return groups;
}
