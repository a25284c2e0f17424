import { isDeepStrictEqual } from "node:util";
import type { Clock } from "../../core/clock.ts";
import { GatewayError } from "../../core/errors.ts";
import type { JobKey } from "../../core/job-call.ts";
import { isObject } from "../../core/objects.ts";
import type { Methods } from "../methods/methods.ts";
import type { JobDescription } from "../wire/offer.ts";
import type { Payload } from "../wire/version.ts";

interface Parts {
  /** Extensions that the 402 of a job declares at this configuration. */
  readonly declared: (job: JobKey) => JobDescription["extensions"];
  readonly methods: Methods;
  readonly clock: Clock;
}

/** Checks that payments send declared extensions back as they are, at one configuration. */
export class ExtensionEchoes {
  readonly #parts: Parts;
  /** Echoes of the previous configuration, while offers made under it are open. */
  #earlier: { readonly echoes: ExtensionEchoes; readonly untilMs: number } | undefined;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Accepts payments that send back the extensions of an earlier configuration, while offers made then are open. */
  replaces(earlier: ExtensionEchoes, offerTtlSecs: number): void {
    if (earlier.#earlier && this.#parts.clock() >= earlier.#earlier.untilMs) earlier.#earlier = undefined;
    this.#earlier = { echoes: earlier, untilMs: this.#parts.clock() + offerTtlSecs * 1000 };
  }

  /**
   * Checks that a payment sends declared extensions back as they are, with additions or not at all: a facilitator lists
   * the job by what the payment says.
   * @throws GatewayError `payment_mismatch`
   */
  check(payload: Payload, job: JobKey): void {
    const changed = this.#changedExtension(payload, job);
    if (changed === undefined) return;
    throw new GatewayError(
      "payment_mismatch",
      `The payment changes what the 402 declared for the extension ${changed}: send its info back as it is. Nothing was charged.`,
      { details: { reason: "extension_echo_mismatch", extension: changed } },
    );
  }

  #changedExtension(payload: Payload, job: JobKey): string | undefined {
    const echoed = payload.extensions ?? {};
    // Another facilitator may have been queried since the 402, so what any might list is treated as declared.
    const ofMethods = [...this.#parts.methods].map(({ extensions }) => extensions);
    const declared = Object.assign(
      {},
      this.#parts.declared(job),
      ...ofMethods,
    ) as JobDescription["extensions"];
    const changed = Object.entries(declared).find(([name, extension]) =>
      contradicts(infoOf(extension), infoOf(echoed[name])),
    )?.[0];
    const earlier = this.#earlier;
    if (changed === undefined || earlier === undefined || this.#parts.clock() >= earlier.untilMs)
      return changed;
    return earlier.echoes.#changedExtension(payload, job);
  }
}

function infoOf(extension: unknown): unknown {
  return isObject(extension) ? extension.info : undefined;
}

/** Compares what both have: a client may leave out a part, and add others. */
function contradicts(declared: unknown, echoed: unknown): boolean {
  if (echoed === undefined) return false;
  if (!isObject(declared) || !isObject(echoed)) return !isDeepStrictEqual(declared, echoed);
  return Object.entries(declared).some(
    ([key, value]) => Object.hasOwn(echoed, key) && contradicts(value, echoed[key]),
  );
}
