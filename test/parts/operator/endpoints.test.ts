import { expect, test } from "vitest";
import { parseRoute } from "../../../src/core/route.ts";
import { toEndpoints } from "../../../src/parts/operator/endpoints.ts";
import type { ListedJob } from "../../../src/x402/jobs/listing.ts";
import { configOf } from "../../config/config-folder.ts";

type Names = Pick<ListedJob, "name" | "title" | "route">;

const listed = (names: Names): ListedJob => ({
  ...{ serviceId: 1n, jobIndex: 0, url: "https://jobs.example.com/x402/jobs/1/0", mode: "public_paid" },
  ...{ requirements: [], schemes: [], offers: [] },
  ...names,
});

test("A job has the name of its configuration, by which commands find it, else its title, else its route", async () => {
  const config = await configOf("service_id = 1\n");
  const nameOf = (names: Names) =>
    toEndpoints(
      [listed(names)],
      config,
      () => [],
      () => ({}),
    ).map(({ name }) => name);
  expect(nameOf({ name: "summarise", title: "Summarise a text" })).toEqual(["summarise"]);
  expect(nameOf({ title: "Summarise a text" })).toEqual(["Summarise a text"]);
  const route = parseRoute("GET|POST /words/{id}");
  expect(nameOf({ title: "Summarise a text", ...(route && { route }) })).toEqual(["Summarise a text"]);
  expect(nameOf({ ...(route && { route }) })).toEqual(["GET|POST /words/{id}"]);
  expect(nameOf({})).toEqual([""]);
});
