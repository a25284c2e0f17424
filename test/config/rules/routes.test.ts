import { describe, expect, it } from "vitest";
import { parseRoute, type Route, routeJobIndex } from "../../../src/core/route.ts";
import { configOf, mistakesOf, TOKEN, X402 } from "../config-folder.ts";
import { testMistakes } from "../mistake-cases.ts";

const routes = (...lines: readonly string[]) =>
  `${X402}${TOKEN}${lines.map((line) => `[[jobs]]\nmode = "public_paid"\nprice_wei = "1000000000000000"\n${line}\n`).join("")}`;

const place = (i: number, key = "route") => ({ keyPath: `jobs[${i}].${key}` });

describe("A route", () => {
  testMistakes([
    {
      promise: "Has a method and a path",
      toml: routes('route = "/weather" #!'),
      ...place(0),
      message: /^is "\/weather"; expected a route: METHOD/,
      suggestion: "GET /weather",
    },
    {
      promise: "Has at most one slash at its end",
      toml: routes('route = "GET /weather//" #!'),
      ...place(0),
      message: /expected a route/,
      suggestion: "GET /weather/",
    },
    {
      promise: "Is not a path of jobgate itself",
      toml: routes('route = "GET /x402/stats" #!'),
      ...place(0),
      message: /whose path is one of jobgate itself; expected another path/,
    },
    {
      promise: "Is not below /x402",
      toml: routes('route = "POST /x402/jobs/{service}/{job}" #!'),
      ...place(0),
      message: /one of jobgate itself/,
    },
    {
      promise: "Is not the path of a webhook on the same address",
      toml: `${routes('route = "POST /hooks/a" #!').replace("[x402]\n", '[x402]\nbind_address = "127.0.0.1:8402"\n')}
[webhooks]
bind_address = "127.0.0.1:8402"
[[webhooks.endpoints]]
path = "/hooks/a"
job_id = 1
`,
      ...place(0),
      message: /one of jobgate itself/,
    },
    {
      promise: "Can be told apart from every other",
      toml: routes('route = "GET|POST /a/{b}"', 'route = "PUT|POST /a/{c}" #!'),
      ...place(1),
      message: /cannot be told apart from jobs\[0\]\.route; expected another method or path/,
    },
    {
      promise: "Of the rest is told apart by its shape",
      toml: routes('route = "GET /a/{b...}"', 'route = "GET /a/{c...}" #!'),
      ...place(1),
      message: /cannot be told apart from jobs\[0\]\.route/,
    },
    {
      promise: "Or an index has every job",
      toml: routes('name = "a"').replace("[[jobs]]", "[[jobs]] #!"),
      ...place(0, "job_index"),
      message: /^is missing; expected an integer from 0 to 4294967295, or a route$/,
    },
    {
      promise: "Has no metadata that a forwarded header could replace",
      toml: routes('route = "GET /a/{b}"\nforward_headers = ["param-b"] #!'),
      ...place(0, "forward_headers[0]"),
      message: /would have the name of metadata that jobgate makes of a job's route/,
    },
  ]);

  testMistakes([
    {
      promise: "Has no max_wait_secs without an answer that is waited for",
      toml: routes('route = "GET /a"\nmax_wait_secs = 5 #!'),
      ...place(0, "max_wait_secs"),
      message: /is set for a job that is not waited for; expected answer = "result"/,
    },
  ]);

  it("May differ from another in its method, or in a literal", async () => {
    const toml = routes(
      'route = "GET /a/{b}"',
      'route = "POST /a/{b}"',
      'route = "GET /a/b"',
      'route = "GET /{c...}"',
    );
    expect(await mistakesOf(toml)).toEqual([]);
  });

  it("Gives its job an index, unless the job has one", async () => {
    const toml = routes('route = "GET /a/{b}"', 'route = "GET /c"\njob_index = 7');
    const { x402 } = await configOf(toml);
    const index = routeJobIndex(parseRoute("GET /a/{b}") as Route);
    expect(x402?.jobs?.map(({ jobIndex }) => jobIndex)).toEqual([index, 7]);
    expect(x402?.jobPolicies.map(({ jobIndex }) => jobIndex)).toEqual([index, 7]);
    expect(x402?.jobs?.[1]?.route).toMatchObject({ methods: ["GET"], path: "/c" });
  });

  it("Whose index another job has is a mistake", async () => {
    const index = routeJobIndex(parseRoute("GET /a/{b}") as Route);
    const found = await mistakesOf(routes(`job_index = ${index}`, 'route = "GET /a/{b}"'));
    expect(found.map((one) => [one.place, one.message])).toEqual([
      ["jobgate.toml:18 jobs[1].job_index", "is the same as in jobs[0].job_index; expected each job once"],
    ]);
  });
});
