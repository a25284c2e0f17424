import type { AcceptedToken, Job, JobBody, X402Config } from "../../config/config.ts";
import { type Price, parseDollars, priceText } from "../../core/amounts.ts";
import { isJsonType } from "../../core/body-schema.ts";
import { equalJobs } from "../../core/job-call.ts";
import { takesBody } from "../../core/route.ts";
import { jobsOf, publicUrlProblem } from "../../x402/jobs/listing.ts";
import { callName } from "../../x402/jobs/seller.ts";
import { PayableTokens } from "../../x402/prices/price-source.ts";

type Seller = Omit<X402Config, "parts">;

/** A job for sale, with the tokens in which it is sold and its highest price in dollars. */
interface Sold extends Job {
  readonly tokens: readonly AcceptedToken[];
  readonly most: Price | undefined;
  readonly isRestricted: boolean;
}

/** A reason why a catalogue does not list a job, or why a client does not buy it. */
interface JobRule {
  /** @returns true for a job to which the reason applies */
  readonly applies: (job: Sold) => boolean;
  readonly reason: string;
}

interface Catalogue {
  readonly name: string;
  /** Largest number of a seller's jobs that the catalogue reads. */
  readonly maxJobs?: number;
  /** Returns the reasons why the catalogue lists none of the seller's jobs. */
  readonly refuses: (seller: Seller) => readonly string[];
  readonly rules: readonly JobRule[];
  /** Returns the keys of the configuration without which the catalogue shows less of a seller. */
  readonly wants: (seller: Seller) => readonly string[];
}

const MAINNETS = new Set(["eip155:8453", "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"]);
/** Default limit of the official clients for one payment. */
const CLIENT_LIMIT = parseDollars("$1") as Price;

const needsPublicUrl = ({ publicUrl }: Seller) => {
  const problem = publicUrlProblem(publicUrl);
  return problem === undefined ? [] : [problem];
};

const CATALOGUES: readonly Catalogue[] = [
  {
    name: "x402scan",
    maxJobs: 40,
    refuses: needsPublicUrl,
    rules: [
      {
        applies: ({ tokens }) => !tokens.some(({ network }) => MAINNETS.has(network)),
        reason: "no token of it is on Base or Solana",
      },
    ],
    wants: ({ contact, logo, guidance }) => [
      ...(contact === undefined ? ["x402.contact"] : []),
      ...(logo === undefined ? ["x402.logo"] : []),
      ...(guidance === undefined ? ["x402.guidance"] : []),
    ],
  },
  {
    name: "bazaar of facilitators",
    refuses: (seller) => [
      ...needsPublicUrl(seller),
      ...(seller.facilitators.some(({ kind }) => kind === "remote")
        ? []
        : ["jobgate settles payments itself; only a remote facilitator has a catalogue"]),
    ],
    rules: [],
    wants: () => [],
  },
  {
    name: "x402.json, ERC-8004",
    refuses: needsPublicUrl,
    rules: [],
    wants: ({ title, logo }) => [
      ...(title === undefined ? ["x402.title"] : []),
      ...(logo === undefined ? ["x402.logo"] : []),
    ],
  },
];

/** Reasons why the official clients, with default settings, do not buy a job that they found. */
const CLIENT_RULES: readonly JobRule[] = [
  {
    applies: ({ most }) => most !== undefined && most.amount > CLIENT_LIMIT.amount,
    reason: `it can cost more than ${priceText(CLIENT_LIMIT)}, their limit for a payment, which buyers can raise (spendControls)`,
  },
  {
    applies: ({ isRestricted }) => isRestricted,
    reason: "it is for callers whom a contract permits",
  },
];

/** Only JSON has a schema. */
const lacksSchema = (body: JobBody | undefined) =>
  body === undefined || (body.schema === undefined && isJsonType(body.contentType));

const WANTED_OF_JOBS: readonly JobRule[] = [
  { applies: ({ description }) => description === undefined, reason: "has no description" },
  {
    applies: ({ input, route }) =>
      lacksSchema(input) && (route === undefined || route.methods.some(takesBody)),
    reason: "has no input.schema",
  },
  { applies: ({ output }) => lacksSchema(output), reason: "has no output.schema" },
];

/** Describes which catalogues would list the jobs for sale, and reasons why they would not, in a line for each finding. */
export function checkListing(seller: Seller): readonly string[] {
  const jobs = soldJobs(seller);
  if (jobs.length === 0) return ["no job is for sale, so that no catalogue lists any"];
  return [
    ...CATALOGUES.flatMap((catalogue) => catalogueFindings(catalogue, seller, jobs)),
    ...findings(
      [...CLIENT_RULES, ...termsRules(jobs)],
      jobs,
      (names, reason) => `official clients do not buy ${names} by default: ${reason}`,
    ),
    ...findings(WANTED_OF_JOBS, jobs, (names, reason) => `catalogues show less of ${names}: it ${reason}`),
  ];
}

/** Terms of parts that the official clients do not meet by themselves. */
function termsRules(jobs: readonly Sold[]): JobRule[] {
  const names = new Set(jobs.flatMap(({ terms = [] }) => terms));
  return [...names].map((name) => ({
    applies: ({ terms = [] }) => terms.includes(name),
    reason: `it is sold only with a ${name}`,
  }));
}

function catalogueFindings(
  { name, maxJobs = Number.POSITIVE_INFINITY, refuses, rules, wants }: Catalogue,
  seller: Seller,
  jobs: readonly Sold[],
) {
  const refused = refuses(seller);
  if (refused.length > 0) return [`${name}: would list no job: ${refused.join("; ")}`];
  const listed = jobs.filter((job) => !rules.some(({ applies }) => applies(job)));
  const missing = wants(seller);
  return [
    `${name}: would list ${listed.length} of ${jobs.length} jobs`,
    ...findings(rules, jobs, (names, reason) => `${name}: would not list ${names}: ${reason}`),
    ...(listed.length > maxJobs ? [`${name}: warns of more than ${maxJobs} jobs`] : []),
    ...(missing.length > 0 ? [`${name}: shows more of a seller with ${missing.join(", ")}`] : []),
  ];
}

/** Returns a line for each rule that applies to some of the jobs. */
function findings(
  rules: readonly JobRule[],
  jobs: readonly Sold[],
  line: (names: string, reason: string) => string,
) {
  return rules.flatMap(({ applies, reason }) => {
    const found = jobs.filter(applies);
    return found.length > 0 ? [line(found.map(callName).join(", "), reason)] : [];
  });
}

function soldJobs(seller: Seller): Sold[] {
  const payable = new PayableTokens(seller.acceptedTokens, seller.jobs);
  return jobsOf(seller).flatMap((job) => {
    const policy = seller.jobPolicies.find((one) => equalJobs(one, job));
    const mode = policy?.invocationMode ?? seller.defaultInvocationMode;
    if (mode === "disabled") return [];
    const most = highestPrice(job);
    const own = payable.of(job);
    const tokens = [
      ...(most === undefined ? own.for({}, policy) : []),
      ...(hasWeiPrice(job) ? [] : own.for({ currency: "USD" }, policy)),
    ];
    return [{ ...job, tokens, most, isRestricted: mode === "restricted_paid" }];
  });
}

/** A price that a source makes may be in wei or in dollars. */
function hasWeiPrice({ price }: Job): boolean {
  return price === undefined || (typeof price === "object" && "unit" in price && price.unit === "wei");
}

/** Returns the highest price of a job in dollars; undefined if the price is in wei, or not in the configuration. */
function highestPrice({ price }: Job): Price | undefined {
  if (price === undefined || typeof price === "string") return undefined;
  if ("upTo" in price) return price.upTo;
  return price.unit === "usd" ? price : undefined;
}
