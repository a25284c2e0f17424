import { isDeepStrictEqual } from "node:util";
import * as z from "zod";
import { defined } from "../core/objects.ts";
import { type Checked, type Complete, required } from "./check-shape.ts";
import type { InProcessFacilitatorConfig, RequestAuth } from "./entry-keys.ts";
import { anyNetwork, headerValue } from "./value-types.ts";
import { baseUrl, headerName, withoutCredentials } from "./web-types.ts";
import type { MayChange } from "./wrong-value.ts";

/** Ways to authenticate to a remote facilitator. */
const auth = z.object({
  /** Sent with each request. */
  headers: z.record(headerName(), headerValue()).describe('a table of header = "value"').optional(),
});

/** URL of a remote facilitator. Operators see its name. */
export const facilitatorUrl = () => baseUrl((url) => `${new URL(url).protocol}//${facilitatorName(url)}`);

export const facilitatorNetworks = (network: ReturnType<typeof anyNetwork>) =>
  z.array(network).min(1).describe('an array of networks, such as ["base"]').optional();

/** One entry of `[[x402.facilitators]]`. rules/facilitators.ts checks its keys against each other. */
export const facilitatorSchema = z.object({
  /** The URL has no trailing slash. */
  url: facilitatorUrl().optional(),
  auth: auth.optional(),
  /** Default: the networks that the facilitator's `/supported` lists. */
  networks: facilitatorNetworks(anyNetwork()),
});

/** Checks whether two lists differ only in how jobgate authenticates to remote facilitators. */
export const areSameFacilitators: MayChange = (used, next) =>
  isDeepStrictEqual(withoutSecrets(used), withoutSecrets(next));

function withoutSecrets(facilitators: unknown): unknown {
  return (facilitators as readonly FacilitatorOutput[]).map(({ auth: _, url, ...facilitator }) => ({
    ...facilitator,
    url: url && withoutCredentials(url),
  }));
}

export type FacilitatorTable = Checked<z.output<typeof facilitatorSchema>>;
type FacilitatorOutput = Complete<z.output<typeof facilitatorSchema>>;

export type FacilitatorConfig = RemoteFacilitatorConfig | InProcessFacilitatorConfig;

export interface RemoteFacilitatorConfig {
  readonly kind: "remote";
  /** See {@link facilitatorName}. */
  readonly name: string;
  /** The URL has no trailing slash and may hold credentials. */
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly auth?: RequestAuth;
  /** CAIP-2; undefined for the networks that the facilitator's `/supported` lists. */
  readonly networks?: readonly string[];
}

/** Completes an entry without mistakes. */
export function toFacilitator(
  { url, auth, networks }: FacilitatorOutput,
  inProcess: InProcessFacilitatorConfig | undefined,
  requestAuth: RequestAuth | undefined,
): FacilitatorConfig {
  const headers = auth?.headers;
  return (
    inProcess ?? defined({ ...toRemoteFacilitator(required(url)), headers, auth: requestAuth, networks })
  );
}

export function toRemoteFacilitator(url: string): RemoteFacilitatorConfig {
  return { kind: "remote", name: facilitatorName(url), url };
}

/** Longest segment of a path that is shown. A longer segment may be a key. */
const MAX_PATH_WORD_LENGTH = 15;

/** Name of a remote facilitator in the journal, logs and metrics: host and path, without anything that may be secret. */
export function facilitatorName(url: string): string {
  const { host, pathname } = new URL(url);
  const parts = pathname.split("/").map((part) => (part.length > MAX_PATH_WORD_LENGTH ? "…" : part));
  return `${host}${parts.join("/").replace(/\/$/, "")}`;
}
