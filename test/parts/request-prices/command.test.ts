import { expect, onTestFinished, test } from "vitest";
import { runHereWith } from "../../commands/operator-commands.ts";
import { listenHttp } from "../../helpers/http-listener.ts";
import { CLOSED_FACILITATOR, SALES_CONFIG } from "../../helpers/small-configs.ts";

const job = (name: string, price: string, more = "") =>
  `[[jobs]]\nname = "${name}"\nmode = "public_paid"\nprice = ${price}\n${more}\n`;

const config = (pricer = "http://127.0.0.1:9/price") =>
  [
    SALES_CONFIG,
    CLOSED_FACILITATOR,
    job(
      "sizes",
      '{ base = "$0.002", per = "body:KiB", each = "$0.001", min = "$0.01", max = "$1" }',
      "job_index = 1",
    ),
    job(
      "texts",
      '{ per = "json:/text:characters", tiers = [{ up_to = 9, price = "$0.02" }] }',
      "job_index = 2",
    ),
    job(
      "models",
      '{ of = "path:model", cases = { large = "$0.04" }, other = "$0.01" }',
      'route = "GET /models/{model}"',
    ),
    job("tiers", '{ of = "header:x-tier", cases = { gold = "$0.05" } }', "job_index = 3"),
    job("drawings", `{ url = "${pricer}", max = "$1" }`, "job_index = 4"),
  ].join("");

const show = (args: readonly string[], { body = "", pricer }: { body?: string; pricer?: string } = {}) =>
  runHereWith(["price", ...args], { files: { "jobgate.toml": config(pricer), body } });

const shown = (...lines: string[]) => ({ code: 0, stdout: `${lines.join("\n")}\n`, stderr: "" });

test("A rule is shown with what it counts, the price, its bounds and the amount of each token", async () => {
  expect(await show(["sizes", "--body", "body"], { body: "x".repeat(9_000) })).toEqual(
    shown(
      "rule: $0.002 and $0.001 for each started KiB of the body, at least $0.01, at most $1.00",
      "read: 9 KiB of the body",
      "price: $0.011 of $0.01 to $1.00",
      "USDC on eip155:84532: 11000 units",
    ),
  );
});

test("A request without body and query has the lowest price", async () => {
  const { stdout } = await show(["1/1"]);
  expect(stdout).toContain("read: nothing, because the request has neither body nor query\nprice: $0.01 of");
});

test("A job can be named by its route, and its path is read", async () => {
  const route = "GET /models/{model}";
  const { stdout } = await show([route, "--path", "/models/large"]);
  expect(stdout).toContain('read: "large" in the path\'s model\nprice: $0.04 of $0.01 to $0.04');
  expect(await show([route])).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("--path is missing"),
  });
  expect(await show([route, "--path", "/a/b"])).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/\/a\/b/),
  });
});

test("A query string that no request can have is refused", async () => {
  expect(await show(["sizes", "--query", "units=kelvin#x"])).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("--query is"),
  });
});

test("Headers are read, and a request without a price is refused as buyers are", async () => {
  const { stdout } = await show(["tiers", "--header", "X-Tier: gold"]);
  expect(stdout).toContain('read: "gold" in the header x-tier\nprice: $0.05 of $0.05 to $0.05');
  expect(await show(["tiers", "--header", "X-Tier: tin"])).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^422 invalid_input: The header x-tier is not one of the values for sale/),
  });
  const long = JSON.stringify({ text: "ten letters" });
  expect(await show(["texts", "--body", "body"], { body: long })).toMatchObject({
    code: 1,
    stderr: expect.stringContaining(
      "/text in the JSON body has more than 9 characters, the most that one request can buy.",
    ),
  });
});

test("A program is called for its price", async () => {
  const { url, stop } = await listenHttp({
    handler: (_, response) => void response.end('{"price":"$0.42","description":"30 steps"}'),
  });
  onTestFinished(stop);
  expect(await show(["drawings"], { pricer: url })).toEqual(
    shown(
      "rule: as the seller's program says",
      "price: $0.42 of $0.000001 to $1.00",
      "description: 30 steps",
      "USDC on eip155:84532: 420000 units",
    ),
  );
});

test.each([["capitals"], ["nothing"]])(
  "The price of the job %s is refused, since it is not by request",
  async (name) => {
    expect(await show([name])).toMatchObject({ code: 1, stdout: "" });
  },
);
