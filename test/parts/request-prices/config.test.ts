import { expect, test } from "vitest";
import { priceText, type RequestPricing } from "../../../src/core/amounts.ts";
import { loadFiles, TOKEN, X402 } from "../../config/config-folder.ts";
import { testMistakes } from "../../config/mistake-cases.ts";

const file = (price: string, job = "job_index = 0") => `${X402}${TOKEN}currency = "USD"
[[jobs]]
service_id = 1
${job}
mode = "public_paid"
price = ${price} #!`;

const GET = 'route = "GET /weather/{city}"';
const API_JOB = 'route = "GET /maps"\napi = "maps"\ncharge = "before"';
const EACH = 'each = "$0.001", min = "$0.01", max = "$1"';
const CASES = 'cases = { a = "$0.01" }';

const mistake = (promise: string, toml: string, key: string, message: RegExp) => ({
  promise,
  toml,
  keyPath: key === "" ? "jobs[0].price" : `jobs[0].price.${key}`,
  message,
});

testMistakes([
  mistake(
    "A number that cannot be read is a mistake",
    file(`{ per = "body", ${EACH} }`),
    "per",
    /expected body: and byte/,
  ),
  mistake("A bad pointer is a mistake", file(`{ per = "json:n", ${EACH} }`), "per", /expected body:/),
  mistake(
    "A price of 0 for a unit is a mistake",
    file('{ per = "body:KiB", each = "$0", min = "$0.01", max = "$1" }'),
    "each",
    /above 0/,
  ),
  mistake(
    "A price for units without a maximum is a mistake",
    file('{ per = "body:KiB", each = "$0.001", min = "$0.01" }'),
    "max",
    /is missing/,
  ),
  mistake(
    "A price of which 0 units are free is a mistake",
    file('{ per = "body:KiB", each = "$0.001", max = "$1" }'),
    "min",
    /0 units/,
  ),
  mistake(
    "A maximum below the minimum is a mistake",
    file('{ per = "body:KiB", each = "$0.001", min = "$2", max = "$1" }'),
    "max",
    /below min/,
  ),
  mistake(
    "A maximum below one unit is a mistake",
    file('{ per = "body:KiB", base = "$1", each = "$0.1", max = "$1" }'),
    "max",
    /one unit/,
  ),
  mistake(
    "Units beside cases are a mistake",
    file(`{ of = "json:/a", ${CASES}, each = "$0.01" }`),
    "each",
    /is set beside cases/,
  ),
  mistake(
    "A minimum beside tiers is a mistake",
    file('{ per = "json:/n", tiers = [{ price = "$0.01" }], min = "$0.01" }'),
    "min",
    /is set beside tiers/,
  ),
  mistake(
    "A header that the operator sets for the API is a mistake",
    `${file('{ of = "header:x-tier", cases = { gold = "$0.02" }, other = "$0.01" }', API_JOB)}
[[apis]]
name = "maps"
url = "http://127.0.0.1:9"
headers = { X-Tier = "gold" }`,
    "",
    /depends on the header x-tier, which you set for the runner/,
  ),
  mistake(
    "A pricer without a maximum is a mistake",
    file('{ url = "http://127.0.0.1:7000" }'),
    "max",
    /is missing/,
  ),
  mistake(
    "A pricer at anything but an http or https URL or a socket is a mistake",
    file('{ url = "ftp://127.0.0.1/price", max = "$1" }'),
    "url",
    /expected an absolute http/,
  ),
  mistake(
    "A pricer that gets credentials in the clear is a mistake",
    file('{ url = "http://me:secret@pricer.example", max = "$1" }'),
    "url",
    /in the clear/,
  ),
  mistake(
    "A pricer whose maximum is below its minimum is a mistake",
    file('{ url = "unix:/run/pricer", min = "$2", max = "$1" }'),
    "max",
    /below min/,
  ),
  mistake(
    "A price for units beside a pricer is a mistake",
    file('{ url = "http://127.0.0.1:7000", max = "$1", each = "$0.1" }'),
    "each",
    /is set beside url; expected only max, url, min, timeout_secs/,
  ),
  mistake(
    "A time-out beside tiers is a mistake",
    file('{ per = "json:/n", tiers = [{ price = "$0.01" }], timeout_secs = 1 }'),
    "timeout_secs",
    /is set beside tiers/,
  ),
  mistake(
    "Tiers that do not rise are a mistake",
    file('{ per = "json:/n", tiers = [{ up_to = 5, price = "$0.01" }, { up_to = 5, price = "$0.02" }] }'),
    "tiers[1].up_to",
    /rising/,
  ),
  mistake(
    "A tier after one without a bound is a mistake",
    file('{ per = "json:/n", tiers = [{ price = "$0.01" }, { up_to = 5, price = "$0.02" }] }'),
    "tiers[0].up_to",
    /is missing/,
  ),
  mistake("Cases without their text are a mistake", file(`{ ${CASES} }`), "of", /is missing/),
  mistake(
    "The whole body as a case is a mistake",
    file(`{ of = "body:KiB", ${CASES} }`),
    "of",
    /expected json:/,
  ),
  mistake(
    "A query without a route is a mistake",
    file(`{ of = "query:a", ${CASES} }`),
    "of",
    /without a route/,
  ),
  mistake(
    "A parameter that the route lacks is a mistake",
    file(`{ of = "path:town", ${CASES} }`, GET),
    "of",
    /path:city/,
  ),
  mistake(
    "A body of GET is a mistake",
    file(`{ per = "body:KiB", ${EACH} }`, GET),
    "per",
    /whose methods have none/,
  ),
  mistake(
    "A header with credentials is a mistake",
    file(`{ of = "header:cookie", ${CASES} }`),
    "of",
    /credentials/,
  ),
  mistake(
    "A header of a gateway is a mistake",
    file(`{ of = "header:x-forwarded-for", ${CASES} }`),
    "of",
    /of a gateway/,
  ),
  mistake(
    "JSON in a job that takes text is a mistake",
    file(`{ per = "json:/n", ${EACH} }`, 'job_index = 0\ninput = { content_type = "text/plain" }'),
    "per",
    /text\/plain/,
  ),
  mistake(
    "An unknown key is a mistake",
    file(`{ per = "body:KiB", ${EACH}, zzzzzz = "$1" }`),
    "zzzzzz",
    /is not a known key/,
  ),
  mistake(
    "A lowest price that is 0 of a token is a mistake",
    file('{ per = "body:KiB", base = "$0.0000000001", each = "$0.001", max = "$1" }'),
    "",
    /rounds to 0/,
  ),
]);

test.each([
  [
    `{ base = "$0.002", per = "body:KiB", ${EACH} }`,
    "$0.01",
    "$1.00",
    "$0.002 and $0.001 for each started KiB of the body, at least $0.01, at most $1.00",
  ],
  [
    `{ per = "json:/n", ${EACH} }`,
    "$0.01",
    "$1.00",
    "$0.001 for each 1 of /n in the JSON body, at least $0.01, at most $1.00",
  ],
  [
    '{ per = "json:/text:characters", tiers = [{ up_to = 1000, price = "$0.01" }, { price = "$0.05" }] }',
    "$0.01",
    "$0.05",
    "by the characters of /text in the JSON body: $0.01 up to 1000, $0.05 above",
  ],
  [
    '{ of = "header:X-Units", cases = { kelvin = "$0.02" }, other = "$0.01" }',
    "$0.01",
    "$0.02",
    "by the header x-units: $0.02 for kelvin, $0.01 otherwise",
  ],
])("The price %s says how it comes about", async (price, from, upTo, rule) => {
  const loaded = await loadFiles({ "jobgate.toml": file(price) });
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.mistakes));
  const pricing = loaded.config.x402?.jobs?.[0]?.price as RequestPricing;
  expect([priceText(pricing.from), priceText(pricing.upTo), pricing.rule]).toEqual([from, upTo, rule]);
});

test.each([
  [`{ per = "json:/n", ${EACH} }`, { contentType: "application/json" }],
  [`{ per = "body:KiB", ${EACH} }`, undefined],
])("A job whose price reads JSON takes JSON: %s", async (price, input) => {
  const loaded = await loadFiles({ "jobgate.toml": file(price) });
  expect(loaded.ok && loaded.config.x402?.jobs?.[0]?.input).toEqual(input);
});
