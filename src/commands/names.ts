import { InvalidArgumentError } from "commander";
import { parseRoute } from "../core/route.ts";
import type { ListEndpointsResponse, OperatorClient } from "./operator-client.ts";
import type { FilterOptions, NumberedJob } from "./options.ts";

/** Names of jobs and networks, as a running jobgate has them. */
export interface Names {
  /**
   * IDs and name of a job, shortened for a table: `1/0 render`. A route is shown alone if it is the only name of the
   * job: `POST /words`.
   */
  readonly job: (job: { origin: string; serviceId: bigint; jobId: bigint | number }) => string;
  /** Name of a network, such as `Base Sepolia`. A network without a name has its CAIP-2 ID here. */
  readonly network: (network: string) => string;
  /** Name and CAIP-2 ID of a network: `Base Sepolia, eip155:84532`. */
  readonly networkInFull: (network: string) => string;
}

/** Most names in a refusal. */
const MAX_NAMES = 20;

/**
 * Finds the job that `--job` names, or whose webhooks arrive at a path.
 * @returns undefined without the option
 * @throws InvalidArgumentError for a name that no job has, or that several have
 */
export async function findJob(
  client: Pick<OperatorClient, "listEndpoints">,
  job: FilterOptions["job"],
): Promise<NumberedJob | undefined> {
  if (job === undefined || "jobId" in job) return job;
  const { endpoints } = await client.listEndpoints({});
  const named = endpoints.filter(({ name, path }) => name === job.name || path === job.name);
  const ids = [...new Set(named.map(({ serviceId, jobId }) => `${serviceId}/${jobId}`))];
  const [found] = named;
  if (found === undefined)
    throw new InvalidArgumentError(`--job: no job is named "${job.name}". ${namesOf(endpoints)}`);
  if (ids.length > 1)
    throw new InvalidArgumentError(
      `--job: "${job.name}" names several jobs, ${ids.join(" and ")}. Expected one of these.`,
    );
  return { serviceId: found.serviceId, jobId: found.jobId };
}

/** Returns a sentence with values that `--job` accepts: names, and for jobs without a name a path of webhooks or IDs. */
function namesOf(endpoints: ListEndpointsResponse["endpoints"]): string {
  const named = endpoints.map(
    ({ origin, name, path, ...job }) =>
      name || (origin === "webhook" ? path : `${job.serviceId}/${job.jobId}`),
  );
  const names = [...new Set(named)];
  if (names.length === 0) return "This jobgate has no jobs.";
  const others = names.length > MAX_NAMES ? `, and ${names.length - MAX_NAMES} others` : "";
  return `The jobs are: ${names.slice(0, MAX_NAMES).join(", ")}${others}.`;
}

/** Most networks that the API describes in one answer. */
const MAX_NETWORKS = 100;
const MAX_NAME_LENGTH = 80;

/** Reads the names of the jobs that a running jobgate sells or takes, and the names of networks. */
export async function readNames(client: OperatorClient, networks: Iterable<string> = []): Promise<Names> {
  const wanted = [...new Set(networks)].filter((network) => network !== "").slice(0, MAX_NETWORKS);
  const [{ endpoints }, described] = await Promise.all([
    client.listEndpoints({}),
    wanted.length === 0 ? undefined : client.listNetworks({ networks: wanted }),
  ]);
  const jobs = new Map<string, string>();
  for (const { origin, serviceId, jobId, name } of endpoints) {
    // The operator can send a JobCall to a job of either origin.
    const keys = [origin, "operator"].map((from) => `${from} ${serviceId}/${jobId}`);
    for (const key of keys) if (name !== "" && !jobs.has(key)) jobs.set(key, name);
  }
  const nameOf = new Map(described?.networks.map(({ network, name }) => [network, name]));
  return {
    job: ({ origin, serviceId, jobId }) => {
      const job = `${serviceId}/${jobId}`;
      const name = jobs.get(`${origin} ${job}`);
      if (name === undefined) return job;
      const cut = name.length > MAX_NAME_LENGTH ? `${name.slice(0, MAX_NAME_LENGTH - 1)}…` : name;
      // The ID of a job at a route is a hash, which people do not recognise. The option --job accepts the route.
      const shown = parseRoute(name) === undefined ? `${job} ${cut}` : cut;
      return origin === "operator" ? `${shown}, resent` : shown;
    },
    network: (network) => nameOf.get(network) || network,
    networkInFull: (network) => [nameOf.get(network), network].filter(Boolean).join(", "),
  };
}
