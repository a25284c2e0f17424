import type {
  AcceptedToken,
  InProcessFacilitatorConfig,
  PeerFindings,
  PeerProblem,
  RemoteFacilitatorConfig,
  X402Config,
} from "../../config/config.ts";
import { isPartial } from "../../core/payment.ts";
import { unreachableText } from "../../node/unreachable.ts";
import type { Methods } from "../methods/methods.ts";
import { type PaymentKind, type Supported, takesNetwork } from "./facilitator.ts";
import { RemoteFacilitator } from "./remote-facilitator.ts";

/** Findings about a facilitator, with the networks on which it accepts payments of a scheme in x402 version 2. */
type Findings = PeerFindings & { readonly networks: (scheme: string) => readonly string[] };

/** Longest time to wait for one answer. */
const MAX_TIMEOUT_MS = 10_000;

/** Reads what each facilitator supports, and checks that at least one facilitator settles each token and each job. */
export async function checkFacilitators(config: X402Config, methods: Methods): Promise<PeerFindings> {
  const timeoutMs = Math.min(config.facilitatorTimeoutMs, MAX_TIMEOUT_MS);
  const found = await Promise.all(
    config.facilitators.map(async (facilitator, i) =>
      facilitator.kind === "remote"
        ? checkRemote(facilitator, ["x402", "facilitators", i], timeoutMs)
        : ownFindings(facilitator),
    ),
  );
  const problems = found.flatMap((one) => one.problems);
  return {
    notes: found.flatMap(({ notes }) => notes),
    // A facilitator that did not answer might support the tokens that no other facilitator supports.
    problems:
      problems.length > 0
        ? problems
        : [...tokensWithoutFacilitator(config, found), ...jobsWithoutFacilitator(config, methods, found)],
  };
}

/** Returns the networks on which a facilitator in this process settles, by any scheme. Its part queries its peers. */
function ownFindings({ chains }: InProcessFacilitatorConfig): Findings {
  return { notes: [], problems: [], networks: () => chains.map(({ network }) => network) };
}

async function checkRemote(
  config: RemoteFacilitatorConfig,
  path: PeerProblem["path"],
  timeoutMs: number,
): Promise<Findings> {
  let supported: Supported;
  try {
    supported = await new RemoteFacilitator({ ...config, timeoutMs }).supported();
  } catch (error) {
    const { message: problem, cause } = error as Error;
    const message = cause === undefined ? problem : `${problem} (${unreachableText(config.url, cause)})`;
    return { notes: [], networks: () => [], problems: [{ path: [...path, "url"], message }] };
  }
  return {
    notes: [`${config.name}: ${supportedText(supported)}`],
    networks(wanted) {
      const kinds = supported.kinds.filter((kind) => kind.x402Version === 2 && kind.scheme === wanted);
      const listed = kinds.map(({ network }) => network);
      return config.networks?.filter((network) => takesNetwork(listed, network)) ?? listed;
    },
    problems: [],
  };
}

/** Returns true if the file has the token, because parts offer further tokens. */
export function isConfigured({ offered }: Pick<AcceptedToken, "offered">): boolean {
  return offered === undefined;
}

function tokensWithoutFacilitator(config: X402Config, found: readonly Findings[]): PeerProblem[] {
  const { facilitators } = config;
  const networks = found.flatMap((one) => one.networks("exact"));
  return config.acceptedTokens.filter(isConfigured).flatMap(({ network }, i) => {
    if (takesNetwork(networks, network)) return [];
    const who = facilitators.length === 1 ? "the facilitator does not settle" : "no facilitator settles";
    const message = `${who} "exact" payments on ${network} in x402 version 2; expected one of ${networks.join(", ") || "none"}`;
    return [{ path: ["x402", "accepted_tokens", i, "network"], message }];
  });
}

/**
 * Finds the jobs that cannot be offered, because the runner names the charge and no facilitator settles such a charge
 * on the network of a token.
 */
function jobsWithoutFacilitator(
  { acceptedTokens, jobs = [] }: X402Config,
  methods: Methods,
  found: readonly Findings[],
): PeerProblem[] {
  const { name: scheme } = methods.ceilingScheme ?? {};
  if (scheme === undefined) return [];
  const networks = found.flatMap((one) => one.networks(scheme));
  const payable = acceptedTokens.filter(({ transferMethod }) => methods.chargesPart(transferMethod));
  if (payable.some(({ network }) => takesNetwork(networks, network))) return [];
  if (acceptedTokens.some(({ offered }) => offered?.unusedPromise !== undefined)) return [];
  const wanted = [...new Set(payable.map(({ network }) => network))].join(" or ");
  return jobs.flatMap(({ charge = [] }, i) =>
    charge.filter(isPartial).map((kind) => ({
      path: ["jobs", i, "charge"],
      message: `is "${kind}", but no facilitator settles "${scheme}" payments on ${wanted}; expected one that does`,
    })),
  );
}

/** Formats an answer of `/supported`: `exact on eip155:8453 (v2); extensions bazaar; signers 0x…`. */
function supportedText({ kinds, extensions, signers }: Supported): string {
  const schemes = [...new Set(kinds.map(({ scheme }) => scheme))];
  const parts = schemes.map((scheme) => {
    const networks = kinds.filter((kind) => kind.scheme === scheme).map(kindText);
    return `${scheme} on ${networks.join(", ")}`;
  });
  const addresses = [...new Set(Object.values(signers).flat())];
  if (extensions.length > 0) parts.push(`extensions ${extensions.join(", ")}`);
  if (addresses.length > 0) parts.push(`signers ${addresses.join(", ")}`);
  return parts.join("; ") || "supports nothing";
}

function kindText({ network, x402Version }: PaymentKind): string {
  return `${network} (v${x402Version})`;
}
