import { type JobCall, ORIGINS } from "../../../src/core/job-call.ts";
import { groupedReason } from "../../../src/store/contract/dead-letter-box.ts";
import { paidCall, paymentIntent, webhookCall } from "../store-fixtures.ts";
import type { MakersOf } from "./makers.ts";
import type { World } from "./world.ts";

export const JOB_IDS = [30n, 31n, 2n ** 64n - 1n];
const HEADS = ["alpha", "beta"];
export const OWNERS = ["/hooks/a", "/hooks/b"];
export const KEYS = ["one", "two", "żółw"];

/** Inputs of accepts, and of lookups of JobCalls. */
export const INTAKE: MakersOf<
  | "accept"
  | "acceptOnce"
  | "listCalls"
  | "findCallDetails"
  | "findCall"
  | "listBought"
  | "findResult"
  | "readResult"
  | "resultBytes"
  | "listDeadLetterGroups"
  | "findDeadLetter"
> = {
  accept: (world) => [newCall(world)],
  acceptOnce(world) {
    const { choices } = world;
    const key = () => `key-${choices.below(8)}`;
    const keys = [{ key: key(), identifies: true }];
    if (choices.percent(40)) keys.push({ key: key(), identifies: choices.percent(50) });
    const distinct = keys.filter((one, index) => keys.findIndex((other) => other.key === one.key) === index);
    const windowMs = choices.one([1_000, 10_000, 300_000]);
    return [newCall(world), { keys: distinct, bodyHash: choices.one(["one", "other"]), windowMs }];
  },

  listCalls(world) {
    const { choices } = world;
    const state = choices.maybe(60, () =>
      choices.one(["held", "ready", "leased", "done", "dead", "dropped"] as const),
    );
    const filter = {
      ...listFilter(world),
      state,
      origin: choices.maybe(20, () => choices.one(ORIGINS)),
      text: choices.maybe(20, () => choices.one(["alpha", "beta", "lph"])),
      reason: state === "dead" ? choices.maybe(40, () => groupedReason(world.text())) : undefined,
    };
    return [filter];
  },
  findCallDetails: (world) => [world.call()],
  findCall: (world) => [world.call()],
  listBought: ({ choices }) => [
    {
      payer: choices.one(PAYERS),
      network: choices.maybe(50, () => "eip155:84532"),
      serviceId: choices.one([1n, 2n ** 64n - 1n]),
      jobIndex: 7,
      bodyHash: paymentIntent(1).bodyHash,
    },
    choices.one([1_000, 300_000]),
  ],
  findResult: (world) => [world.call()],
  readResult: (world) => [world.call(), world.choices.below(3), world.choices.one([1, 100])],
  resultBytes: () => [],
  listDeadLetterGroups: (world) => [
    world.choices.one([1, 100]),
    world.choices.maybe(40, () => world.text().slice(0, 5)),
  ],
  findDeadLetter: (world) => [world.call(world.dead)],
};

/** Filter that the operator's lists have in common. */
export function listFilter(world: World) {
  const { choices, now } = world;
  return {
    limit: choices.one([1, 5, 50]),
    before: choices.maybe(30, () => world.call()),
    serviceId: choices.maybe(15, () => 1n),
    jobId: choices.maybe(25, () => choices.one([...JOB_IDS, 7n, 8n])),
    payer: choices.maybe(15, () => choices.one(PAYERS)),
    since: choices.maybe(15, () => now - choices.one([0, 30_000, 3_600_000])),
    until: choices.maybe(15, () => now - choices.one([0, 30_000, 3_600_000])),
  };
}

export const PAYERS = [
  "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266",
  "0x70997970c51812dc3a010c7d01b50e0d17dc79c8",
  "0x3c44cdddb6a900fa2b585dd299e03d12fa4293bc",
];

function newCall(world: World): JobCall {
  const { choices } = world;
  const body = Buffer.from(choices.one(["", "body", "a longer body".repeat(20)]));
  const origin = choices.percent(15) ? "operator" : "webhook";
  const order = choices.maybe(40, () => ({
    owner: choices.one(OWNERS),
    key: choices.one(KEYS),
    holdsOnDead: choices.percent(40),
  }));
  const metadata = { head: choices.one(HEADS) };
  return webhookCall({ origin, jobId: choices.one(JOB_IDS), body, metadata, order });
}

export function newPaidCall({ choices }: World, jobIndex: number, serviceId: bigint): JobCall {
  return paidCall({ jobId: BigInt(jobIndex), serviceId, metadata: { head: choices.one(HEADS) } });
}
