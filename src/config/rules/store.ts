import type { MistakeList } from "../mistakes.ts";
import type { ConfigTables } from "../schema.ts";

/** URL parameters that mean the same as `store.tls` and `store.ca`. The driver would prefer them. */
const TLS_PARAMETERS = ["ssl", "sslcert", "sslkey", "sslrootcert", "sslnegotiation", "uselibpqcompat"];
const SSL_MODES = ["disable", "require", "verify-full"];

/** Checks that `[store]` configures a connection in one place, and only for a store that has connections. */
export function checkStore({ store }: ConfigTables, mistakes: MistakeList): void {
  if (store?.url === undefined) return;
  const place = mistakes.at("store");
  if (!/^postgres(ql)?:/.test(store.url)) {
    const { poolSize, connectTimeoutMs, tls, ca } = store;
    const unused = { pool_size: poolSize, connect_timeout_secs: connectTimeoutMs, tls, ca };
    for (const [key, value] of Object.entries(unused)) {
      if (value === undefined) continue;
      place.at(key).report("is for a postgres:// store; expected no such key beside a sqlite: url");
    }
    return;
  }
  const parameters = new URL(store.url).searchParams;
  const used = TLS_PARAMETERS.filter((name) => parameters.has(name));
  if (used.length > 0) {
    place.at("url").report(`has ${used.join(", ")}; expected store.tls and store.ca instead`);
  }
  const sslMode = parameters.get("sslmode");
  if (sslMode !== null && !SSL_MODES.includes(sslMode)) {
    place.at("url").report(`has sslmode=${sslMode}; expected ${SSL_MODES.join(", ")}`);
  }
}
