import { privateKeyToAddress } from "viem/accounts";
import { readChainId } from "../../chain/chain-client.ts";
import { asNumber, Rpc } from "../../chain/rpc.ts";
import type {
  LocalFacilitatorConfig,
  PeerProblem,
  RemoteFacilitatorConfig,
  X402Config,
} from "../../config/config.ts";
import { decimalText } from "../../core/amounts.ts";
import { unreachableText } from "../../node/unreachable.ts";
import type { Methods } from "../methods/methods.ts";
import type { PaymentKind, Supported } from "./facilitator.ts";
import { RemoteFacilitator } from "./remote-facilitator.ts";

/** Results of asking every facilitator in the configuration. */
export interface FacilitatorFindings {
  /** Texts for people about what each supports. */
  readonly notes: readonly string[];
  readonly problems: readonly PeerProblem[];
}

type Scheme = "exact" | "upto";

/** One facilitator's findings, with the networks on which it takes payments of a scheme in x402 version 2. */
type Findings = FacilitatorFindings & { readonly networks: (scheme: Scheme) => readonly string[] };

/** Longest time to wait for one answer. */
const MAX_TIMEOUT_MS = 10_000;

/** Asks each facilitator what it supports, and whether one of them takes each token and each job. */
export async function checkFacilitators(config: X402Config, methods: Methods): Promise<FacilitatorFindings> {
  const timeoutMs = Math.min(config.facilitatorTimeoutMs, MAX_TIMEOUT_MS);
  const isByUse = [...methods].some(({ name }) => methods.chargesUse(name));
  const localSchemes: readonly Scheme[] = isByUse ? ["exact", "upto"] : ["exact"];
  const found = await Promise.all(
    config.facilitators.map((facilitator, i) =>
      facilitator.kind === "local"
        ? checkLocal(facilitator, localSchemes, { path: ["x402", "facilitators", i], timeoutMs })
        : checkRemote(facilitator, ["x402", "facilitators", i], timeoutMs),
    ),
  );
  const problems = found.flatMap((one) => one.problems);
  return {
    notes: found.flatMap(({ notes }) => notes),
    // One that did not answer may take the tokens that no other takes.
    problems:
      problems.length > 0
        ? problems
        : [...tokensWithoutFacilitator(config, found), ...jobsWithoutFacilitator(config, methods, found)],
  };
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
      return config.networks?.filter((network) => takes(listed, network)) ?? listed;
    },
    problems: [],
  };
}

/** Checks each chain's RPC, and reads the balances of the accounts that pay for gas. */
async function checkLocal(
  { signers, chains, minBalanceWei }: LocalFacilitatorConfig,
  schemes: readonly Scheme[],
  { path, timeoutMs }: { readonly path: PeerProblem["path"]; readonly timeoutMs: number },
): Promise<Findings> {
  const addresses = signers.map(({ privateKey }) => privateKeyToAddress(privateKey));
  const found = await Promise.all(
    chains.map(async ({ network, rpcUrl }) => {
      const rpc = new Rpc({ rpcUrl, timeoutMs });
      const problem = (message: string) => ({
        notes: [],
        problems: [{ path: [...path, "rpc_urls"], message }],
      });
      try {
        const chainId = await readChainId(rpc);
        if (`eip155:${chainId}` !== network)
          return problem(`has the RPC of eip155:${chainId} for ${network}`);
        const balances = await Promise.all(
          addresses.map(async (address) => asNumber(await rpc.call("eth_getBalance", [address, "latest"]))),
        );
        const accounts = addresses.map((address, i) =>
          balanceText(address, balances[i] ?? 0n, minBalanceWei),
        );
        return {
          notes: [`local: ${schemes.join(", ")} on ${network}; ${accounts.join(", ")}`],
          problems: [],
        };
      } catch (error) {
        return problem(
          `has an RPC for ${network} that does not answer (${unreachableText(rpcUrl, error)}); expected an Ethereum JSON-RPC endpoint`,
        );
      }
    }),
  );
  return {
    notes: found.flatMap(({ notes }) => notes),
    problems: found.flatMap(({ problems }) => problems),
    networks: (scheme) => (schemes.includes(scheme) ? chains.map(({ network }) => network) : []),
  };
}

function balanceText(address: string, balanceWei: bigint, minBalanceWei: bigint): string {
  const min = balanceWei < minBalanceWei ? `, less than min_balance ${decimalText(minBalanceWei, 18)}` : "";
  return `${address} (balance ${decimalText(balanceWei, 18)}${min})`;
}

function tokensWithoutFacilitator(
  { acceptedTokens, facilitators }: X402Config,
  found: readonly Findings[],
): PeerProblem[] {
  const networks = found.flatMap((one) => one.networks("exact"));
  return acceptedTokens.flatMap(({ network }, i) => {
    if (takes(networks, network)) return [];
    const who = facilitators.length === 1 ? "the facilitator does not settle" : "no facilitator settles";
    const message = `${who} "exact" payments on ${network} in x402 version 2; expected one of ${networks.join(", ") || "none"}`;
    return [{ path: ["x402", "accepted_tokens", i, "network"], message }];
  });
}

/** Finds the jobs by use that no buyer is offered, because nobody settles `upto` on the network of a token that can pay so. */
function jobsWithoutFacilitator(
  { acceptedTokens, jobs = [] }: X402Config,
  methods: Methods,
  found: readonly Findings[],
): PeerProblem[] {
  const networks = found.flatMap((one) => one.networks("upto"));
  const payable = acceptedTokens.filter(({ transferMethod }) => methods.chargesUse(transferMethod));
  if (payable.some(({ network }) => takes(networks, network))) return [];
  const wanted = [...new Set(payable.map(({ network }) => network))].join(" or ");
  return jobs.flatMap(({ charge }, i) =>
    charge?.includes("used")
      ? [
          {
            path: ["jobs", i, "charge"],
            message: `is "used", but no facilitator settles "upto" payments on ${wanted}; expected one that does`,
          },
        ]
      : [],
  );
}

/** One pattern can mean all EVM chains. */
function takes(networks: readonly string[], network: string): boolean {
  return networks.includes(network) || networks.includes("eip155:*");
}

/** Formats an answer of `/supported`: `exact on eip155:8453 (v2), base (v1); extensions bazaar; signers 0x…`. */
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
