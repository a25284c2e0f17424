import type { Job, X402Config } from "../../config/config.ts";
import { publicUrlProblem } from "../../x402/jobs/listing.ts";
import { jobTitle } from "../../x402/jobs/seller.ts";

/** Facts without which agents see less of a skill. */
const WANTED: readonly (readonly [isMissing: (job: Job) => boolean, reason: string])[] = [
  [({ description }) => description === undefined, "has no description"],
  [({ tags = [] }) => tags.length === 0, "has no tags"],
  [({ input }) => input?.example === undefined, "has no input.example"],
];

/** Describes which clients would read the agent card, and which facts it lacks, in a line for each finding. */
export function checkAgentCard({ publicUrl, jobs = [], jobPolicies }: Omit<X402Config, "parts">): string[] {
  const problem = publicUrlProblem(publicUrl);
  if (problem !== undefined) return [`agent card: no registry of agents would read it: ${problem}`];
  const isOff = ({ serviceId, jobIndex }: Job) =>
    jobPolicies.some(
      (policy) =>
        policy.serviceId === serviceId &&
        policy.jobIndex === jobIndex &&
        policy.invocationMode === "disabled",
    );
  const sold = jobs.filter((job) => !isOff(job));
  const missing = WANTED.flatMap(([isMissing, reason]) => {
    const names = sold.filter(isMissing).map(jobTitle).join(", ");
    return names === "" ? [] : [`agent card: shows less of ${names}: it ${reason}`];
  });
  return [`agent card: registries of agents read ${publicUrl}/.well-known/agent-card.json`, ...missing];
}
