import { expect, test } from "vitest";
import { toEndpoints } from "../../../src/parts/operator/endpoints.ts";
import type { ListedJob } from "../../../src/x402/jobs/listing.ts";
import { configOf } from "../../config/config-folder.ts";

const listed = (names: Pick<ListedJob, "name" | "title">): ListedJob => ({
  ...{ serviceId: 1n, jobIndex: 0, url: "https://jobs.example.com/x402/jobs/1/0", mode: "public_paid" },
  ...{ requirements: [], schemes: [], offers: [] },
  ...names,
});

test("A job has the name of its configuration, by which commands find it, and its title if it has no name", async () => {
  const config = await configOf("service_id = 1\n");
  const nameOf = (names: Pick<ListedJob, "name" | "title">) =>
    toEndpoints(
      [listed(names)],
      config,
      () => [],
      () => ({}),
    ).map(({ name }) => name);
  expect(nameOf({ name: "summarise", title: "Summarise a text" })).toEqual(["summarise"]);
  expect(nameOf({ title: "Summarise a text" })).toEqual(["Summarise a text"]);
  expect(nameOf({})).toEqual([""]);
});
