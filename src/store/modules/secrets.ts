import type { SecretKeeper } from "../contract/call-lookup.ts";
import type { StoreModule } from "../module.ts";
import { keyIn, type Table } from "../rows.ts";

interface SecretRow {
  readonly name: string;
  readonly secret: string;
}

const TABLE: Table<SecretRow, "name"> = { name: "secrets", key: ["name"], columns: ["name", "secret"] };

/** Random secrets that stay the same over restarts and replicas. */
export const SECRETS = {
  steps: {
    keepSecret: {
      keys: (name) => [keyIn(TABLE, { name })],
      run({ rows }, _now, name, secret) {
        const known = rows.find(TABLE, { name });
        if (known === undefined) rows.put(TABLE, { name, secret });
        return known?.secret ?? secret;
      },
    },
  },
} satisfies StoreModule<SecretKeeper>;
