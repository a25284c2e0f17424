import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { deserialize } from "node:v8";
import type { PaymentRecord } from "../../src/core/payment.ts";
import type { CallState } from "../../src/store/contract/call-lookup.ts";
import type { StoreTotals } from "../../src/store/store.ts";
import type { Journal } from "./journal.ts";

interface Contents {
  readonly totals: StoreTotals;
  readonly payments: PaymentRecord[];
  readonly callStates: ReadonlyMap<number, CallState["state"] | undefined>;
}

const READER = fileURLToPath(new URL("./postgres-journal-process.ts", import.meta.url));

/** The payment journal of a Postgres store, read by a new process each time. */
export function openPostgresJournal(url: string): Journal {
  const read = (): Contents =>
    deserialize(
      Buffer.from(
        execFileSync(process.execPath, ["--import", "tsx", READER, url], {
          encoding: "utf8",
          timeout: 50_000,
        }),
        "base64",
      ),
    ) as Contents;
  return {
    totals: () => read().totals,
    payments: () => read().payments,
    callState: (callId) => read().callStates.get(callId),
    paymentOf: ({ authorization }) =>
      read().payments.find(({ key }) => key.nonce === authorization.nonce.toLowerCase()),
    close: () => {},
  };
}
