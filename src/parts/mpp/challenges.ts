import { createHmac } from "node:crypto";
import { stringify } from "lossless-json";
import type { Clock } from "../../core/clock.ts";
import { isAnyInConstantTime } from "../../core/constant-time.ts";
import type { MppConfig } from "./config.ts";

/** A demand for payment (draft-httpauth-payment), with its parameters as they are sent. */
export interface Challenge {
  /** HMAC of the other parameters, so that jobgate need not store challenges. */
  readonly id: string;
  readonly realm: string;
  readonly method: string;
  readonly intent: string;
  /** Canonical JSON in base64url. */
  readonly request: string;
  /** RFC 3339. */
  readonly expires?: string | undefined;
  /** RFC 9530 digest of the body that is paid for. */
  readonly digest?: string | undefined;
  /** Flat JSON of strings in base64url, which clients return as it is. */
  readonly opaque?: string | undefined;
}

type Terms = Pick<Challenge, "method" | "request" | "digest" | "opaque"> & {
  /** Seconds for which the offer stays payable. */
  readonly maxSecs: number;
  /** Seconds for which the payment must outlive its purchase, because its job is charged after it ran. */
  readonly runSecs: number;
};

/** Makes challenges, and recognises them when they come back. */
export class Challenges {
  readonly #clock: Clock;
  #config: MppConfig;
  /** Secrets that a reload took out of the configuration, while challenges made with them are open. */
  #retired: readonly { readonly secret: string; readonly untilMs: number }[] = [];

  constructor({ config, clock }: { readonly config: MppConfig; readonly clock: Clock }) {
    this.#config = config;
    this.#clock = clock;
  }

  /** Uses this configuration from now on. Earlier challenges stay valid until they expire. */
  reload(config: MppConfig): void {
    const now = this.#clock();
    const { secretKeys, challengeTtlSecs } = this.#config;
    const untilMs = now + challengeTtlSecs * 1000;
    this.#retired = [
      ...this.#retired.filter((retired) => retired.untilMs > now),
      ...secretKeys
        .filter((secret) => !config.secretKeys.includes(secret))
        .map((secret) => ({ secret, untilMs })),
    ];
    this.#config = config;
  }

  get realm(): string {
    return this.#config.realm;
  }

  make({ maxSecs, runSecs, ...terms }: Terms): Challenge {
    const { realm, challengeTtlSecs, secretKeys } = this.#config;
    const endsAt = this.#clock() + (Math.min(challengeTtlSecs, maxSecs) + runSecs) * 1000;
    // Whole seconds, because the authorization that pays the challenge ends at this time.
    const expires = new Date(Math.floor(endsAt / 1000) * 1000).toISOString();
    const challenge = { ...terms, realm, intent: "charge", expires };
    return { ...challenge, id: idOf(challenge, secretKeys[0] as string) };
  }

  /** Reports whether jobgate made exactly this challenge. It may have expired. */
  isOwn(challenge: Challenge): boolean {
    const now = this.#clock();
    const retired = this.#retired.filter(({ untilMs }) => untilMs > now).map(({ secret }) => secret);
    const ids = [...this.#config.secretKeys, ...retired].map((secret) => idOf(challenge, secret));
    return isAnyInConstantTime(challenge.id, ids);
  }

  hasExpired({ expires }: Challenge): boolean {
    return !(Date.parse(expires ?? "") > this.#clock());
  }
}

/** Writes a challenge as `WWW-Authenticate` has it. */
export function challengeHeader({ id, realm, method, ...others }: Challenge): string {
  const pairs = Object.entries({ id, realm, method, ...others }).flatMap(([name, value]) =>
    value === undefined ? [] : `${name}="${value.replace(/["\\]/g, "\\$&")}"`,
  );
  return `Payment ${pairs.join(", ")}`;
}

/** Returns JSON in base64url, with its keys in the order of RFC 8785, because clients parse and serialize it again. */
export function canonical(value: unknown): string {
  return Buffer.from(stringify(sorted(value)) ?? "").toString("base64url");
}

function sorted(value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  const entries = Object.entries(value).filter(([, inner]) => inner !== undefined);
  return Object.fromEntries(
    entries.sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, inner]) => [key, sorted(inner)]),
  );
}

function idOf(challenge: Omit<Challenge, "id">, secret: string): string {
  const { realm, method, intent, request, expires = "", digest = "", opaque = "" } = challenge;
  const slots = [realm, method, intent, request, expires, digest, opaque];
  return createHmac("sha256", secret).update(slots.join("|")).digest("base64url");
}
