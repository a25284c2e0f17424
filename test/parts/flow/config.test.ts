import { expect, test } from "vitest";
import { configOf } from "../../config/config-folder.ts";
import { ENDPOINT, testMistakes } from "../../config/mistake-cases.ts";

const mistake = (promise: string, key: string, line: string, message: RegExp) => ({
  promise,
  toml: `${ENDPOINT}${line} #!\n`,
  keyPath: `webhooks.endpoints[0].${key}`,
  message,
});

testMistakes([
  mistake(
    "A pointer without a slash is a mistake",
    "order_by",
    'order_by = "json:customer"',
    /such as json:/,
  ),
  mistake("The whole body is no key", "order_by", 'order_by = "json:"', /such as json:/),
  mistake(
    "A parameter of the path is no key, because paths of endpoints have none",
    "order_by",
    'order_by = "path:customer"',
    /such as json:/,
  ),
  mistake(
    "A header with credentials is no key, because operators see keys",
    "order_by",
    'order_by = "header:Authorization"',
    /carries credentials/,
  ),
  mistake(
    "The header that proves who sends is no key",
    "order_by",
    'auth = "github"\nsecret = "0123456789abcdef"\norder_by = "header:X-Hub-Signature"',
    /proves to this endpoint who sends/,
  ),
  mistake("A rate without a time is a mistake", "rate", 'rate = "10"', /such as 10\/s/),
  mistake("A rate of nothing is a mistake", "rate", 'rate = "0/s"', /such as 10\/s/),
  mistake("A concurrency of nothing is a mistake", "concurrency", "concurrency = 0", /1/),
  {
    promise: "Another endpoint with the job ID and without the limit is a mistake",
    toml: `${ENDPOINT}concurrency = 4 #!\n${ENDPOINT.slice(ENDPOINT.indexOf("[[webhooks.endpoints]]")).replace(/path = "[^"]*"/, 'path = "/other"')}`,
    keyPath: "webhooks.endpoints[0].concurrency",
    message: /share the limit/,
  },
  mistake("on_dead without order_by is a mistake", "on_dead", 'on_dead = "hold"', /without order_by/),
  mistake(
    "Another word for on_dead is a mistake",
    "on_dead",
    'order_by = "json:/a"\non_dead = "stop"',
    /hold/,
  ),
]);

async function orderOf(order: string, body: string | Uint8Array, values: readonly string[] = []) {
  const { webhooks } = await configOf({ "jobgate.toml": `${ENDPOINT}${order}\n` });
  const [endpoint] = webhooks?.endpoints ?? [];
  return endpoint?.orderOf?.({ headerValues: () => values }, Buffer.from(body));
}

test("A key is the text or the number at its pointer, as it is written", async () => {
  const key = async (customer: string) =>
    (await orderOf('order_by = "json:/a~1b/0"', `{ "a/b": [${customer}] }`))?.key;
  expect(await key('"ada"')).toBe("ada");
  expect(await key("12345678901234567890")).toBe("12345678901234567890");
  for (const none of ['""', "null", "true", "{}", '["ada"]']) expect(await key(none)).toBeUndefined();
});

test("A body that is not JSON, has the key twice or no such value has no key", async () => {
  for (const body of ["", "ada", '{"a":1,"a":2}', '{"b":1}', new Uint8Array([0xff])])
    expect(await orderOf('order_by = "json:/a"', body)).toBeUndefined();
});

test("A header that is sent once is a key, of its endpoint", async () => {
  const order = 'order_by = "header:X-Customer"';
  expect(await orderOf(order, "", ["ada"])).toEqual({ owner: "/hooks/a", key: "ada", holdsOnDead: false });
  expect(await orderOf(`${order}\non_dead = "hold"`, "", ["ada"])).toMatchObject({ holdsOnDead: true });
  expect(await orderOf(order, "", [])).toBeUndefined();
  expect(await orderOf(order, "", ["ada", "bob"])).toBeUndefined();
});

test("Long keys stay apart, and short enough to list", async () => {
  const keys = await Promise.all(
    ["a", "b"].map((end) => orderOf('order_by = "header:X-Customer"', "", [`${"x".repeat(5_000)}${end}`])),
  );
  const [one, other] = keys.map((order) => order?.key ?? "");
  expect(one).not.toBe(other);
  expect(one?.length).toBeLessThan(200);
});
