import { describe, expect, test } from "vitest";
import { version } from "../../../src/node/version.ts";
import type { RateReport } from "../../../src/x402/prices/token-rates.ts";
import { callJson, startOperator, TOKEN } from "../../helpers/operator.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";

const NETWORK = "eip155:84532";
const [USDC, EURC, NEW] = ["0x036CbD53842c5426634e7929541eC2318f3dCF7e", "0xe", "0xn"];
const usdc: RateReport = {
  network: NETWORK,
  asset: USDC,
  symbol: "USDC",
  source: "fixed",
  rate: { ratePerNativeUnit: "3200.00" },
  usable: true,
};
const eurc = (asOf: number): RateReport => ({
  network: NETWORK,
  asset: EURC,
  symbol: 'E"UR',
  source: "chainlink",
  rate: { ratePerNativeUnit: "2941.123456789012345678", asOf },
  usable: false,
  problem: "its RPC does not answer",
});
const unknown: RateReport = {
  network: NETWORK,
  asset: NEW,
  symbol: "NEW",
  source: "http",
  usable: false,
  problem: "it was not queried yet",
};

let rates: RateReport[] = [];
const open = startBeforeAll(() => startOperator({ rates: () => rates }));
const guarded = startBeforeAll(() => startOperator({ token: TOKEN }));

async function scrape(): Promise<string[]> {
  const response = await fetch(`${open.url}/metrics`);
  expect(response.status).toBe(200);
  return (await response.text()).split("\n");
}

describe("ListRates", () => {
  test("Returns each token's exact rate with its source, its time and its problem", async () => {
    rates = [usdc, eurc(1_900_000_000_123), unknown];
    expect(await callJson(open.url, "ListRates")).toEqual({
      status: 200,
      answer: {
        rates: [
          {
            network: NETWORK,
            asset: USDC,
            symbol: "USDC",
            rate: "3200.00",
            source: "fixed",
            usable: true,
            problem: "",
          },
          {
            network: NETWORK,
            asset: EURC,
            symbol: 'E"UR',
            rate: "2941.123456789012345678",
            source: "chainlink",
            as_of: "2030-03-17T17:46:40.123Z",
            usable: false,
            problem: "its RPC does not answer",
          },
          {
            network: NETWORK,
            asset: NEW,
            symbol: "NEW",
            rate: "",
            source: "http",
            usable: false,
            problem: "it was not queried yet",
          },
        ],
      },
    });
  });

  test("Returns no rates without an x402 gateway", async () => {
    const headers = { authorization: `Bearer ${TOKEN}` };
    expect((await callJson(guarded.url, "ListRates", {}, headers)).answer).toEqual({ rates: [] });
  });
});

describe("/metrics", () => {
  test("Shows the current rates, and no removed token", async () => {
    rates = [usdc, eurc(Date.now() - 900_000), unknown];
    const lines = await scrape();
    const labels = `network="${NETWORK}",asset="${USDC}",symbol="USDC",source="fixed"`;
    const live = `network="${NETWORK}",asset="${EURC}",symbol="E\\"UR",source="chainlink"`;
    const fresh = `network="${NETWORK}",asset="${NEW}",symbol="NEW",source="http"`;
    const rateLines = lines.filter((line) => line.startsWith("jobgate_token_rate"));
    expect(rateLines.filter((line) => !line.includes("age"))).toEqual([
      `jobgate_token_rate{${labels}} 3200`,
      `jobgate_token_rate{${live}} 2941.1234567890124`,
      `jobgate_token_rate_usable{${labels}} 1`,
      `jobgate_token_rate_usable{${live}} 0`,
      `jobgate_token_rate_usable{${fresh}} 0`,
    ]);
    const ages = rateLines.filter((line) => line.includes("age"));
    expect(ages).toEqual([expect.stringContaining(`jobgate_token_rate_age_seconds{${live}} 9`)]);
    expect(Number(ages[0]?.split(" ").at(-1))).toBeLessThan(1_000);

    rates = [];
    expect((await scrape()).filter((line) => line.startsWith("jobgate_token_rate"))).toEqual([]);
  });

  test("Shows version and process metrics, in the format of Prometheus", async () => {
    const lines = await scrape();
    expect(lines).toContain(`jobgate_build_info{version="${version}"} 1`);
    expect(lines.some((line) => /^process_cpu_seconds_total \d/.test(line))).toBe(true);
    const { headers } = await fetch(`${open.url}/metrics`);
    expect(headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8");
    expect(headers.get("cache-control")).toBe("no-store");
  });

  test("Two operator listeners in one process have separate metrics", async () => {
    rates = [usdc];
    const headers = { authorization: `Bearer ${TOKEN}` };
    const other = await (await fetch(`${guarded.url}/metrics`, { headers })).text();
    expect(other).toContain("jobgate_build_info{");
    expect(other).not.toContain("USDC");
  });

  test("Needs the token if one is set", async () => {
    for (const authorization of ["", "Bearer nonsense"]) {
      const response = await fetch(`${guarded.url}/metrics`, { headers: { authorization } });
      expect(response.status).toBe(401);
      expect(response.headers.get("www-authenticate")).toBe("Bearer");
      expect(await response.json()).toMatchObject({ code: "unauthenticated" });
    }
  });

  test("Refuses pages of other sites, and methods other than GET", async () => {
    const headers = { origin: "http://evil.example" };
    expect((await fetch(`${open.url}/metrics`, { headers })).status).toBe(403);
    expect((await fetch(`${open.url}/metrics`, { method: "POST" })).status).toBe(405);
  });
});
