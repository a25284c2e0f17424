import { jobKeyText } from "../../core/job-call.ts";
import { type ChargeKind, isPartial } from "../../core/payment.ts";
import { serviceIdOf } from "../config.ts";
import { chargesOf, type JobTable, KEEP } from "../jobs.ts";
import { earlierPlace, type MistakeList, type Place } from "../mistakes.ts";
import type { ConfigTables } from "../schema.ts";
import { checkForwardedHeaders } from "./forwarded-headers.ts";
import { isOfPart } from "./prices.ts";
import { checkPolicy, type PlacedToken, tokensOf } from "./x402.ts";

/** Checks the keys of each of `[[jobs]]` against each other and against other tables that name jobs. */
export function checkJobs(tables: ConfigTables, mistakes: MistakeList): void {
  const { jobs = [], x402 } = tables;
  if (x402 === undefined && jobs.length > 0) {
    mistakes.at("jobs").warn("are not sold, because there is no [x402]");
  }
  const places = new Map<string, Place>();
  const policies = policyPlaces(tables, mistakes);
  const requireUnique = (key: string, place: Place, expected: string): void => {
    const first = earlierPlace(places, key, place);
    if (first !== undefined) place.report(`is the same as in ${first.text}; expected ${expected}`);
  };
  for (const [i, job] of jobs.entries()) {
    if (job === undefined) continue;
    const place = mistakes.at("jobs", i);
    const { name, jobIndex, mode } = job;
    checkPolicy({ ...job, invocationMode: mode }, place, "mode");
    if (!place.at("charge").hasMistake)
      checkCharge(job, place, tables, x402 && tokensOf(job, x402, mistakes.at("x402", "accepted_tokens")));
    if (job.maxWaitSecs !== undefined && job.answer !== "result" && !place.at("answer").isReported)
      place.at("max_wait_secs").report('is set for a job that is not waited for; expected answer = "result"');
    checkForwardedHeaders(job.forwardHeaders, place.at("forward_headers"));
    const set = tables.claims.all("jobs", i).flatMap(({ setHeaders = [] }) => setHeaders);
    for (const name of tables.claims.of("jobs.price", i)?.headers ?? [])
      if (set.includes(name))
        place
          .at("price")
          .report(`depends on the header ${name}, which you set for the runner; expected another header`);
    if (name !== undefined) requireUnique(`name ${name}`, place.at("name"), "a name of its own");
    if (jobIndex === undefined || place.at("service_id").isReported) continue;
    const serviceId = job.serviceId ?? serviceIdOf(tables);
    const key = jobKeyText(serviceId, jobIndex);
    requireUnique(`job ${key}`, place.at("job_index"), "each job once");
    if (name !== undefined && /^job-\d+-\d+$/.test(name) && name !== `job-${serviceId}-${jobIndex}`)
      place.at("name").report("is what agents call another job without a name; expected another name");
    const policy = policies.get(key);
    if (mode !== undefined && policy !== undefined) {
      place.at("mode").report(`is set beside ${policy.text}; expected only one of them`);
    }
    const hasPrice = job.price !== undefined || job.priceWei !== undefined;
    const isOff = tables.x402?.defaultInvocationMode === "disabled";
    if (hasPrice && mode === undefined && policy === undefined && isOff && !place.at("mode").isReported)
      place.at("mode").warn('is missing, so the job is not for sale; expected "public_paid" to sell it');
    const isMapped = tables.jobPricing?.[`${serviceId}`]?.[`${jobIndex}`] !== undefined;
    const mapped = isMapped ? mistakes.at("job_pricing", `${serviceId}`, `${jobIndex}`) : undefined;
    checkPriceKeys(job, { place, mapped }, tables);
  }
}

function policyPlaces({ x402 }: ConfigTables, mistakes: MistakeList): Map<string, Place> {
  const places = new Map<string, Place>();
  for (const [i, policy] of (x402?.jobPolicies ?? []).entries()) {
    if (policy?.serviceId === undefined || policy.jobIndex === undefined) continue;
    places.set(jobKeyText(policy.serviceId, policy.jobIndex), mistakes.at("x402", "job_policies", i));
  }
  return places;
}

/** @param at the job, and its price in `[job_pricing]`, if there is one */
function checkPriceKeys(
  { price, priceWei, mode }: JobTable,
  { place, mapped }: { readonly place: Place; readonly mapped: Place | undefined },
  { x402 }: ConfigTables,
): void {
  const own = (["price", "price_wei"] as const).filter(
    (key) => (key === "price" ? price : priceWei) !== undefined || place.at(key).isReported,
  );
  const [first] = own;
  if (own.length > 1) {
    place.at("price_wei").report("is set beside price; expected only one of them");
  } else if (first !== undefined && mapped !== undefined) {
    place.at(first).report(`is set beside ${mapped.text}; expected only one of them`);
  }
  const isForSale = (mode ?? "disabled") !== "disabled";
  if (!isOfPart(x402) && isForSale && first === undefined && mapped === undefined) {
    place.at("price").report('is missing; expected a price such as "$0.01", or price_wei');
  }
}

/** Checks that the tokens of a job support a charge after the job, and that the job's other keys fit such a charge. */
function checkCharge(
  job: JobTable,
  place: Place,
  tables: ConfigTables,
  tokens: readonly PlacedToken[] | undefined,
): void {
  const charges = chargesOf(job);
  const { onFailure = KEEP } = job;
  if (charges.includes("before") && charges.includes("after")) {
    const also = tables.charges.map((kind) => `, or one of them and ${JSON.stringify(kind)}`).join("");
    place.at("charge").report(`has "before" and "after"; expected one of them${also}`);
  }
  if (!charges.includes("before") && onFailure !== KEEP) {
    place
      .at("on_failure")
      .report(
        'is set, and the job is not charged when it fails; expected "before" in charge, or no on_failure',
      );
  }
  if (tables.x402?.acceptedTokens === undefined || tokens === undefined) return;
  for (const kind of charges.filter(isPartial)) checkMethods(kind, place, tables, tokens);
  checkLateCharge(charges, job, place, tables.methods, tokens);
}

/** Checks that a transfer method can charge less than the payer signed. */
function checkMethods(
  kind: ChargeKind,
  place: Place,
  { methods, chargesPart }: ConfigTables,
  tokens: readonly PlacedToken[],
): void {
  // A token with a mistake may have such a method.
  const paying = methods.filter(({ chargesPart }) => chargesPart);
  const isPayable = ([token, at]: PlacedToken) =>
    at.hasMistake ||
    paying.some(({ name }) => name === token?.transferMethod) ||
    (token !== undefined && chargesPart(token));
  if (tokens.some(isPayable)) return;
  const titles = paying.map(({ title }) => title).join(" or ");
  const names = paying.map(({ name }) => JSON.stringify(name)).join(" or ");
  place
    .at("charge")
    .report(
      paying.length === 0
        ? `is "${kind}", which no transfer method of this build pays; expected "before" or "after"`
        : `is "${kind}", which only ${titles} pays; expected an accepted token with transfer_method = ${names}`,
    );
}

/** Checks that some token supports a charge after the job, and warns of the tokens that do not. */
function checkLateCharge(
  charges: readonly ChargeKind[],
  { maxRunSecs = Number.POSITIVE_INFINITY }: JobTable,
  place: Place,
  methods: ConfigTables["methods"],
  tokens: readonly PlacedToken[],
): void {
  const late = charges.filter((kind) => kind !== "before").map((kind) => JSON.stringify(kind));
  if (late.length === 0) return;
  const problems = tokens.map(([token, at]) => {
    if (at.hasMistake) return undefined;
    // Only the chain of a token shows the outcome of a charge.
    if (token?.rpcUrl === undefined) return at.at("rpc_url").text;
    const { endsSoon } = methods.find(({ name }) => name === token.transferMethod) ?? {};
    if (endsSoon === undefined || maxRunSecs <= endsSoon.maxRunSecs) return undefined;
    return `max_run_secs of at most ${endsSoon.maxRunSecs}, because a payment in the token expires soon`;
  });
  const is = `is ${late.join(" and ")}`;
  if (!charges.includes("before") && !problems.includes(undefined)) {
    const isOfRpc = tokens.length !== 1 || tokens[0]?.[0]?.rpcUrl === undefined;
    const expected = isOfRpc ? "a token with rpc_url" : problems[0];
    place
      .at("charge")
      .report(`${is}, which no accepted token can be paid by; expected ${expected}, or "before"`);
    return;
  }
  for (const [i, problem] of problems.entries())
    if (problem !== undefined)
      place
        .at("charge")
        .warn(
          `${is}, and the job is not offered with that charge in ${tokens[i]?.[1].text}; expected ${problem}`,
        );
}
