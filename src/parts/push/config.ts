import * as z from "zod";
import type { Checked, Complete } from "../../config/check-shape.ts";
import { ConfigTable } from "../../config/config-table.ts";
import type { Place } from "../../config/mistakes.ts";
import { checkSigningKeys } from "../../config/rules/signing-keys.ts";
import { checkCredentials } from "../../config/rules/urls.ts";
import type { ConfigTables } from "../../config/schema.ts";
import { integer, seconds, secretList, signingKeys, u64 } from "../../config/value-types.ts";
import { httpUrl, shownUrl } from "../../config/web-types.ts";
import { isLoopbackHost, isPrivateHost } from "../../core/network-address.ts";

const target = z.object({
  /** URL that receives each JobCall as one POST request. */
  url: httpUrl(),
  /** Jobs whose JobCalls are pushed; empty means all. */
  jobIds: z.array(u64()).describe("an array of job IDs").default([]),
  /** Most requests in progress. */
  concurrency: integer(1, 1_000).default(8),
  /** Time limit of one request, including the whole response. */
  timeoutMs: seconds(0.001).default(60_000),
  /** Keys that sign each request. There are several keys while the receiver changes from the old key to the new key. */
  secret: signingKeys().optional(),
});

export type PushTargetConfig = Complete<ReturnType<typeof toTarget>>;

/** `[[push]]` */
export const pushTable = ConfigTable.of({
  keys: { push: z.array(target).describe("an array of tables, one for each target").default([]) },
  check({ push = [] }, { place, tables }) {
    for (const [i, table] of push.entries()) {
      if (table === undefined) continue;
      checkTarget(table, place.at("push", i));
      checkJobs(table.jobIds, place.at("push", i, "job_ids"), tables);
    }
  },
  complete: ({ push }): readonly PushTargetConfig[] => push.map(toTarget),
  summary: ({ length }) => (length > 0 ? `push targets: ${length}` : undefined),
});

function toTarget({ secret, ...rest }: Complete<z.output<typeof target>>) {
  return { ...rest, secrets: secretList(secret) };
}

/** Reports a job that is not run by runners, because the target would never get its JobCalls. */
function checkJobs(jobIds: readonly unknown[] = [], place: Place, { jobs = [], claims }: ConfigTables): void {
  for (const [i, job] of jobs.entries()) {
    if (job?.jobIndex === undefined || !jobIds.includes(BigInt(job.jobIndex))) continue;
    const runBy = claims.all("jobs", i).find((claim) => claim.runBy !== undefined)?.runBy;
    if (runBy !== undefined)
      place.report(`has ${job.jobIndex}, the job_index of a job of ${runBy}; expected jobs of runners`);
  }
}

/** Checks that only the target can read the JobCalls, and that a remote target can recognise jobgate by a signature. */
function checkTarget({ url, secret }: Checked<z.output<typeof target>>, place: Place): void {
  const urlPlace = place.at("url");
  const secretPlace = place.at("secret");
  if (url !== undefined) {
    const { protocol, hostname } = new URL(url);
    if (protocol === "http:" && !isLoopbackHost(hostname) && !isPrivateHost(hostname)) {
      urlPlace.report(
        `is "${shownUrl(url)}", which uses http; expected https://, unless the host is loopback or private`,
      );
    } else {
      checkCredentials(urlPlace, url);
    }
    if (secret === undefined && !isLoopbackHost(hostname)) {
      secretPlace.reportMissing(
        "is missing; expected a Standard Webhooks key, by which the target recognises jobgate, because the target is not on this machine",
      );
    }
  }
  checkSigningKeys(secret, secretPlace);
}
