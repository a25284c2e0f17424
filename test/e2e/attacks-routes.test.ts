import { beforeAll, describe, expect, it } from "vitest";
import { rawRequest } from "../helpers/raw-request.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { ONE_PAID_JOB, watchLedger } from "./ledger.ts";
import { type Payment, PROTOCOLS, type ProtocolName, startPaidGateway } from "./paid-gateway.ts";
import { startPaidParts } from "./paid-parts.ts";

const parts = startBeforeAll(startPaidParts);
const gateway = startBeforeAll(() => startPaidGateway({ parts, setUp: "no rpc_url" }));
/** Good, and good all the time: none of these requests may use them. */
const payments = {} as Record<ProtocolName, Payment>;
beforeAll(async () => {
  for (const protocol of PROTOCOLS) payments[protocol] = await gateway.at(protocol).sign();
});

/** Sends the valid payment of a protocol with this raw request line, at the path of the protocol. */
const send = (requestLine: string, protocol: ProtocolName = "x402") =>
  rawRequest(
    gateway.jobgate.x402Url,
    protocol === "blueprintevm" ? requestLine.replace("x402", "mpp") : requestLine,
    { ...payments[protocol].headers },
    "work",
  );

describe("Routes", () => {
  it.each([
    ["%31 for 1 as the service", "/x402/jobs/%31/0"],
    ["%30 for 0 as the job", "/x402/jobs/1/%30"],
    ["// at the start", "//x402/jobs/1/0"],
    ["// in the middle", "/x402//jobs/1/0"],
    ["// before the job", "/x402/jobs/1//0"],
    ["a backslash", "/x402/jobs/1\\0"],
    ["a backslash in place of slashes", "/x402\\jobs\\1\\0"],
    ["%2F for a slash", "/x402/jobs/1%2F0"],
    ["%2f for a slash", "/x402%2fjobs/1/0"],
    ["a bad %", "/x402/jobs/1/0%"],
    ["a bad %zz", "/x402/jobs/1/%zz"],
    ["+1 as the service", "/x402/jobs/+1/0"],
    ["+0 as the job", "/x402/jobs/1/+0"],
    ["-0 as the job", "/x402/jobs/1/-0"],
    ["01 as the service", "/x402/jobs/01/0"],
    ["00 as the job", "/x402/jobs/1/00"],
    ["2^64 as the service", "/x402/jobs/18446744073709551616/0"],
    ["2^64 + 1 as the service, which is 1 in 64 bits", "/x402/jobs/18446744073709551617/0"],
    ["2^32 as the job, which is 0 in 32 bits", "/x402/jobs/1/4294967296"],
    ["10^30 as the job", "/x402/jobs/1/1000000000000000000000000000000"],
    ["a trailing slash", "/x402/jobs/1/0/"],
    ["a trailing slash after a tail", "/x402/jobs/1/0/price/"],
    ["a dot segment", "/x402/jobs/./1/0"],
    ["a dot dot segment", "/x402/jobs/2/../1/0"],
    ["a dot dot segment in percent-encoding", "/x402/jobs/2/%2e%2e/1/0"],
    ["a decimal point", "/x402/jobs/1.0/0"],
    ["an exponent", "/x402/jobs/1e0/0"],
    ["hexadecimal", "/x402/jobs/0x1/0"],
    ["another letter case", "/X402/jobs/1/0"],
    ["a matrix parameter", "/x402/jobs/1/0;x=1"],
    ["a full-width digit", "/x402/jobs/%EF%BC%91/0"],
    ["no job", "/x402/jobs/1"],
    ["no service", "/x402/jobs//0"],
    ["an absolute URL", "http://127.0.0.1/x402/jobs/1/0"],
    ["call id 0", "/x402/calls/0"],
    ["a call id above 2^53", "/x402/calls/9007199254740993"],
  ])("%s → 404, and nothing is paid", async (_name, path) => {
    const expectChanges = await watchLedger(parts, gateway);
    for (const answer of await Promise.all(PROTOCOLS.map((protocol) => send(`POST ${path}`, protocol)))) {
      expect(answer.status).toBe(404);
      expect(JSON.parse(answer.body)).toEqual({
        error: expect.any(String),
        code: "not_found",
        charged: false,
        retryable: false,
      });
      expect(answer.headers["cache-control"]).toBe("no-store");
    }
    await expectChanges({});
  });

  it("OPTIONS on the paid path → 204, no settlement", async () => {
    const expectChanges = await watchLedger(parts, gateway);
    for (const answer of await Promise.all(
      PROTOCOLS.map((protocol) => send("OPTIONS /x402/jobs/1/0", protocol)),
    )) {
      expect([answer.status, answer.body]).toEqual([204, ""]);
      expect(answer.headers["access-control-allow-origin"]).toBe("*");
    }
    await expectChanges({});
  });

  it.each(["HEAD", "GET", "PUT", "PATCH", "DELETE"])(
    "%s on the paid path → 405, no settlement",
    async (method) => {
      const expectChanges = await watchLedger(parts, gateway);
      const allow = method === "GET" ? "POST" : "GET, POST";
      for (const protocol of PROTOCOLS) {
        const answer = await send(`${method} /x402/jobs/1/0`, protocol);
        expect([answer.status, answer.headers.allow]).toEqual([405, allow]);
        expect(answer.headers["cache-control"]).toBe("no-store");
        if (method === "HEAD") continue;
        const refusal = {
          error: expect.any(String),
          code: "method_not_allowed",
          charged: false,
          retryable: false,
        };
        const body = JSON.parse(answer.body);
        // MPP answers with a problem that holds the same fields.
        if (protocol === "x402") expect(body).toEqual(refusal);
        else expect(body).toMatchObject(refusal);
      }
      await expectChanges({});
    },
  );

  it("GET on the paid path without a payment → 402 and never a job", async () => {
    const expectChanges = await watchLedger(parts, gateway);
    for (const protocol of PROTOCOLS) {
      const response = await fetch(gateway.at(protocol).urlOf());
      expect([protocol, response.status]).toEqual([protocol, 402]);
    }
    await expectChanges({});
  });

  it("POST on a price, a call or health → 405, no settlement", async () => {
    const expectChanges = await watchLedger(parts, gateway);
    for (const path of ["/x402/jobs/1/0/price", "/x402/calls/1", "/x402/stats"])
      expect([path, (await send(`POST ${path}`)).headers.allow]).toEqual([path, "GET"]);
    expect((await send("POST /x402/health")).headers.allow).toBe("GET, HEAD");
    await expectChanges({});
  });

  it("A job without a price → 404 with its IDs as exact numbers", async () => {
    const expectChanges = await watchLedger(parts, gateway);
    for (const protocol of PROTOCOLS) {
      const { status, body } = await send("POST /x402/jobs/18446744073709551615/4294967295", protocol);
      expect(status).toBe(404);
      expect(body).toContain('"service_id":18446744073709551615,"job_index":4294967295');
      expect(JSON.parse(body)).toMatchObject({ code: "job_not_found", charged: false, retryable: false });
    }
    await expectChanges({});
  });

  it.each(PROTOCOLS)(
    "The same payment on the right path, without a query, buys one job (%s)",
    async (protocol) => {
      const bought = gateway.jobsWith("work").length;
      const expectChanges = await watchLedger(parts, gateway);
      expect((await send("POST /x402/jobs/1/0?utm=x", protocol)).status).toBe(400);
      expect((await send("POST /x402/jobs/1/0", protocol)).status).toBe(202);
      await gateway.waitForJobs("work", bought + 1);
      await expectChanges(ONE_PAID_JOB);
    },
  );
});
