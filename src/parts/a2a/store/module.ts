import { type Lookup, parameters } from "../../../store/list-dialect.ts";
import type { StoreModule } from "../../../store/module.ts";
import { isNonceUsed, nonceKey, useNonce } from "../../../store/modules/one-time-nonces.ts";
import type { TaskLedger } from "./ledger.ts";

/** Tasks of agents. Their rows are nonces that payments use up. */
export const TASKS: StoreModule<TaskLedger> = {
  steps: {
    addTask: {
      keys: (key) => [nonceKey(key)],
      run({ rows }, now, key, callId, expiresAt) {
        const nonce = { key, expiresAt };
        if (expiresAt * 1000 > now && !isNonceUsed(rows, nonce, now)) useNonce(rows, nonce, { callId, now });
      },
    },
  },
  lookups: {
    *findTask({ dialect, now }, key): Lookup<number | undefined> {
      const { values, add } = parameters(dialect);
      const sql = `SELECT call_id FROM ${dialect.schema}one_time_nonces
        WHERE key = ${add(key)} AND expires_at_secs * 1000 > ${dialect.now(add(now()))}`;
      const [row] = (yield { name: "find_task", sql, values }) as { readonly call_id: number }[];
      return row?.call_id;
    },
  },
};
