import { setTimeout as sleep } from "node:timers/promises";
import { Fail, run } from "jobgate/runner";

await run(async ({ body, callId, attempt, metadata }) => {
  console.log(`delivery ${callId} ${attempt}`);
  const text = body.toString();
  if (text.startsWith("fail")) throw new Fail("asked to fail");
  if (text.startsWith("retry") && attempt === 1) throw new Error("asked to retry");
  if (text.startsWith("sleep:")) await sleep(Number(text.slice("sleep:".length)));
  body.reverse();
  const method = metadata["X-HTTP-METHOD"];
  if (method === undefined) return body;
  const asked = `${method} ${metadata["X-HTTP-PATH"]}?${metadata["X-HTTP-QUERY"]}`;
  return { body, status: Number(metadata["X-HTTP-PARAM-STATUS"]), headers: [["X-Asked", asked]] };
});
