import { once } from "node:events";
import { describe, expect, it } from "vitest";
import { openSocket } from "../../helpers/raw-request.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { startTestGateway } from "../gateway-harness.ts";
import { JOB } from "../payments.ts";

describe("A request that waits for 100 before it sends its body", () => {
  const schema = JSON.stringify({ type: "object" });
  const jobs = [{ ...JOB, jobIndex: 1, input: { contentType: "application/json", schema } }];
  const gateway = startBeforeAll(() => startTestGateway({ config: { jobs, maxBodyBytes: 1_000 } }));

  /** Returns what the server answers to the head of a request. */
  async function answer(job: number, length: number, header = ""): Promise<string> {
    const socket = await openSocket(gateway.url);
    const head = `POST /x402/jobs/1/${job} HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: ${length}\r\n`;
    socket.write(`${head}${header}\r\n`);
    const [bytes] = (await once(socket, "data")) as [Buffer];
    socket.destroy();
    return bytes.toString();
  }

  it("is asked to pay without its body", async () => {
    // The client's next bytes could be that body or another request.
    expect(await answer(0, 10)).toMatch(/^HTTP\/1\.1 402 .*\r\nconnection: close\r\n/is);
  });

  it("is refused at once if its body is too large", async () => {
    expect(await answer(0, 1_001)).toMatch(/^HTTP\/1\.1 413 /);
  });

  it("is told to send the body that a schema or a payment needs", async () => {
    expect(await answer(1, 10)).toMatch(/^HTTP\/1\.1 100 /);
    expect(await answer(0, 10, "payment-signature: a\r\n")).toMatch(/^HTTP\/1\.1 100 /);
  });
});
