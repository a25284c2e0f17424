import type { IncomingMessage, ServerResponse } from "node:http";
import { beforeEach, describe, expect, test } from "vitest";
import { createHttpRate } from "../../../src/parts/rates/http-rate.ts";
import type { RateProblem } from "../../../src/parts/rates/rate.ts";
import { listenHttp } from "../../helpers/http-listener.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";

const NOW = 1_900_000_000_000;

let answer: (request: IncomingMessage, response: ServerResponse) => void;
let requests: IncomingMessage[] = [];

const server = startBeforeAll(() =>
  listenHttp({
    handler: (request, response) => {
      requests.push(request);
      answer(request, response);
    },
  }),
);
beforeEach(() => {
  requests = [];
});

const says = (body: string | Buffer, status = 200, headers: Record<string, string> = {}) => {
  answer = (_, response) => response.writeHead(status, headers).end(body);
};
const ask = (options: { pointer?: string; url?: string; timeoutMs?: number } = {}) =>
  createHttpRate({
    url: `${server.url}/r?q=1`,
    pointer: "",
    timeoutMs: 30_000,
    clock: () => NOW,
    ...options,
  })();
const problem = (options?: Parameters<typeof ask>[0]) =>
  ask(options).then(
    (value) => expect.unreachable(JSON.stringify(value)),
    ({ key, message }: RateProblem) => ({ key, message }),
  );
const NO_RATE = {
  key: "pointer",
  message:
    "the value at the pointer in its answer is not a rate; expected a number above 0, of at most 100 digits",
};

describe("a number, or a string that holds one, is the rate to its last digit", () => {
  test.each([
    ["3200", "3200"],
    ["3200.50", "3200.5"],
    ['"3200.123456789012345678901234567890"', "3200.12345678901234567890123456789"],
    ["0.1000000000000000055511151231257827", "0.1000000000000000055511151231257827"],
    ["1e-7", "0.0000001"],
    ['"1E-7"', "0.0000001"],
    ["3.2e3", "3200"],
    ["12.345e+1", "123.45"],
    ["0.0032e4", "32"],
    ["123456789012345678901234567890", "123456789012345678901234567890"],
    ["1e99", `1${"0".repeat(99)}`],
  ])("%s", async (body, ratePerNativeUnit) => {
    says(body);
    expect(await ask()).toEqual({ ratePerNativeUnit, asOf: NOW });
  });
});

describe("anything but a rate is refused", () => {
  test.each([
    ["0"],
    ["0.000"],
    ["0e5"],
    ["-1"],
    ['"-1"'],
    ['""'],
    ['" 1"'],
    ['"+1"'],
    ['"01"'],
    ['"1,5"'],
    ['"0x10"'],
    ['"Infinity"'],
    ['"NaN"'],
    ["true"],
    ["null"],
    ["[1]"],
    ["{}"],
    ["1e100"],
    ["1e-101"],
    ["1e999999999999999999999"],
    ["1".repeat(101)],
  ])("%s", async (body) => {
    says(body);
    expect(await problem()).toEqual(NO_RATE);
  });
});

describe("the pointer", () => {
  const document = '{"a":[{"b/c":{"~":"1"}},"2"],"":"3","1":"4","n":5,"~1":"6"}';

  test.each([
    ["/a/0/b~1c/~0", "1"],
    ["/a/1", "2"],
    ["/", "3"],
    ["/1", "4"],
    ["/n", "5"],
    ["/~01", "6"],
  ])("%s finds %s", async (pointer, found) => {
    says(document);
    expect((await ask({ pointer })).ratePerNativeUnit).toBe(found);
  });

  test.each([
    "/b",
    "/a/2",
    "/a/01",
    "/a/-",
    "/a/length",
    "/n/value",
    "/toString",
    "/__proto__",
    "/a/0/b~1c/~0/0",
  ])("%s finds nothing", async (pointer) => {
    says(document);
    expect(await problem({ pointer })).toEqual({
      key: "pointer",
      message: "its answer has nothing at the pointer",
    });
  });
});

describe("an unusable answer", () => {
  test.each([
    ["HTML", "<html>", 200, "it answers with something else than JSON"],
    ["nothing", "", 200, "it answers with something else than JSON"],
    ["half of it", '{"rate": 32', 200, "it answers with something else than JSON"],
    [
      "what is not UTF-8",
      Buffer.from([0x22, 0x31, 0xff, 0x22]),
      200,
      "it answers with something else than JSON",
    ],
    ["brackets without end", "[".repeat(1_000_000), 200, "it answers with something else than JSON"],
    ["an error with a rate in it", "3200", 500, "it answers with status 500; expected 200"],
  ])("%s", async (_, body, status, message) => {
    says(body, status);
    expect(await problem()).toEqual({ key: "url", message });
  });

  test("A redirect is not followed", async () => {
    says("3200", 302, { location: `${server.url}/elsewhere` });
    expect(await problem()).toEqual({ key: "url", message: "it answers with status 302; expected 200" });
    expect(requests.map(({ url }) => url)).toEqual(["/r?q=1"]);
  });

  test("No more than 1 MiB is read", async () => {
    says(`"1"${" ".repeat(1_048_576 - 3)}`);
    expect((await ask()).ratePerNativeUnit).toBe("1");
    let sent = 0;
    answer = (_, response) => {
      const more = (): void => {
        while (!response.destroyed && response.write(Buffer.alloc(65_536, " "))) sent += 65_536;
        response.once("drain", more);
      };
      more();
    };
    expect(await problem()).toEqual({ key: "url", message: "its answer is larger than 1 MiB" });
    expect(sent).toBeLessThan(50_000_000);
  });

  test("A body that arrives too slowly fails the request", async () => {
    answer = (_, response) => response.writeHead(200).write("32");
    expect(await problem({ timeoutMs: 200 })).toEqual({
      key: "url",
      message: "it does not answer within 0.2 s",
    });
  });

  test("A closed port and a cut connection fail the request", async () => {
    const gone = await listenHttp({ handler: () => undefined });
    await gone.stop();
    const message = "it does not answer";
    expect(await problem({ url: gone.url })).toEqual({ key: "url", message });
    answer = (request) => request.socket.resetAndDestroy();
    expect(await problem()).toEqual({ key: "url", message });
  });
});

test("Credentials of the URL travel in a header, and its path and query stay as they are", async () => {
  says("1");
  await ask({ url: `${server.url.replace("http://", "http://user:p%40ss@")}/rates/?key=a/` });
  expect(requests[0]?.url).toBe("/rates/?key=a/");
  expect(requests[0]?.headers.authorization).toBe(`Basic ${Buffer.from("user:p@ss").toString("base64")}`);
});
