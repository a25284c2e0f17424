import { privateKeyToAccount } from "viem/accounts";
import { expect, onTestFinished, test } from "vitest";
import { CHANNELS } from "../../../src/parts/channels/store/module.ts";
import { runHereWith } from "../../commands/operator-commands.ts";
import { TOKEN, X402 } from "../../config/config-folder.ts";
import { openTestStore } from "../../helpers/test-store.ts";
import { encodeTestCall, paidCall } from "../../store/store-fixtures.ts";
import { inChannel } from "./store/store-contract.ts";

const KEY = `0x${"02".repeat(32)}` as const;
const EARLIER = `0x${"ee".repeat(20)}`;
const channelId = (digit: string) => `0x${digit.repeat(64)}`;

/** Serves a store with a channel of each of these authorizers. */
async function givenChannels(authorizers: readonly string[]): Promise<string> {
  const opened = await openTestStore({ encodeJobCall: encodeTestCall });
  onTestFinished(() => opened.stop());
  for (const [i, receiverAuthorizer] of authorizers.entries()) {
    const intent = inChannel(i + 1, 10, { deposit: "100", channelId: channelId(`${i + 1}`) });
    const { payload } = JSON.parse(intent.payload);
    const withAuthorizer = { payload: { ...payload, channelConfig: { receiverAuthorizer } } };
    await opened.store.beginPayment({ ...intent, payload: JSON.stringify(withAuthorizer) }, paidCall());
    await opened.store.settlePayment(intent.key, "{}", "1");
    for (const { channelId: id, ...charges } of await opened.store.of(CHANNELS).listUncounted({ limit: 10 }))
      await opened.store.of(CHANNELS).countCharges(id, charges);
  }
  return opened.path;
}

test("check --online names channels of the running store whose authorizer has no key in the configuration", async () => {
  const own = privateKeyToAccount(KEY).address;
  const path = await givenChannels([EARLIER, own, EARLIER]);
  const { code, stdout } = await runHereWith(["check", "--online"], {
    files: {
      "jobgate.toml": `service_id = 1\n[store]\nurl = "sqlite:${path}"\n${X402}${TOKEN}currency = "USD"\nrpc_url = "http://127.0.0.1:1"\n[x402.channels]\nauthorizer = { private_key = "${KEY}" }\n`,
    },
  });
  expect(code).toBe(1);
  const [line, ...more] = stdout.split("\n").filter((text) => text.includes("x402.channels"));
  expect(more).toEqual([]);
  expect(line).toContain(
    `has no key of ${EARLIER}, which channels ${channelId("1")}, ${channelId("3")} of the store name`,
  );
  expect(line).not.toContain(channelId("2"));
});
