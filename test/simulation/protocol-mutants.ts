import type { WorldMutant } from "./mutant.ts";

const MPP_PROTOCOL = "parts/mpp/mpp-protocol.ts";

/** Removed guards of the protocols beside x402. */
export const PROTOCOL_MUTANTS: readonly WorldMutant[] = [
  {
    name: "a challenge that was made elsewhere is taken",
    parts: ["more protocols"],
    seed: 72,
    ...{ file: MPP_PROTOCOL, from: "if (!challenges.isOwn(challenge))", to: "if (false)" },
  },
  {
    name: "a challenge that has ended is taken",
    parts: ["more protocols"],
    seed: 14,
    ...{ file: MPP_PROTOCOL, from: "if (challenges.hasExpired(challenge))", to: "if (false)" },
  },
  {
    name: "a challenge is taken for another job",
    parts: ["more protocols"],
    seed: 55,
    ...{ file: MPP_PROTOCOL, from: "if (asked.job !== method.jobText(job))", to: "if (false)" },
  },
  {
    name: "a challenge is taken for another body",
    parts: ["more protocols"],
    seed: 16,
    ...{ file: MPP_PROTOCOL, from: " && challenge.digest !== digestOf(body)", to: " && false" },
  },
  {
    name: "a payment has another nonce than its challenge",
    parts: ["more protocols"],
    seed: 16,
    ...{ file: MPP_PROTOCOL, from: "if (bound !== undefined && bound !== nonce)", to: "if (false)" },
  },
  {
    name: "a credential names another payer",
    parts: ["more protocols"],
    seed: 15,
    ...{ file: MPP_PROTOCOL, from: "if (source !== undefined && source", to: "if (source === '' && source" },
  },
];
