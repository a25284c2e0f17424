import { expect, test } from "vitest";
import { listenProblem } from "../../src/node/listen-error.ts";

const TCP = { kind: "tcp", host: "192.0.2.1", port: 80 } as const;
const coded = (code: string, message = code) => Object.assign(new Error(message), { code });

test.each([
  [coded("EADDRINUSE"), /^x402\.bind_address: 192\.0\.2\.1:80 is in use by another process; .*port$/],
  [coded("EACCES"), /^x402\.bind_address: 192\.0\.2\.1:80 is not permitted .*CAP_NET_BIND_SERVICE$/],
  [new Error("No address added: [listen EADDRNOTAVAIL: x]"), /is not an address of this machine; set one/],
  [new Error("Name resolution failed for target dns:x"), /cannot be resolved; set an IP address$/],
  [new Error("out of memory"), /^x402\.bind_address: cannot be used: out of memory$/],
])("%s names the key, the address and what to do", (error, expected) => {
  expect(listenProblem(error, "x402.bind_address", TCP)).toMatch(expected);
});

test("An error of a Unix socket, which names its path, is kept", () => {
  const problem = listenProblem(coded("EACCES", "/run/a.sock cannot be created"), "operator.bind_address", {
    kind: "unix",
    path: "/run/a.sock",
  });
  expect(problem).toBe("operator.bind_address: cannot be used: /run/a.sock cannot be created");
});
