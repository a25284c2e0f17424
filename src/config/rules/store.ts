import type { Checked } from "../check-shape.ts";
import type { MistakeList } from "../mistake-list.ts";
import type { CheckedFile } from "../schema.ts";

/** Parameters of a URL that say what `store.tls` and `store.ca` say, which the driver would go by instead. */
const TLS_PARAMETERS = ["ssl", "sslcert", "sslkey", "sslrootcert", "sslnegotiation", "uselibpqcompat"];
const SSL_MODES = ["disable", "require", "verify-full"];

export function isPostgresUrl(url: string): boolean {
  return /^postgres(ql)?:/.test(url);
}

/** That how to connect is said in one place, and only of a store that is connected to. */
export function checkStore(file: Checked<CheckedFile>, mistakes: MistakeList): void {
  const { store } = file;
  if (store?.url === undefined) return;
  if (!isPostgresUrl(store.url)) {
    for (const key of ["pool_size", "tls", "ca"] as const) {
      if (store[key] === undefined) continue;
      mistakes.report(
        ["store", key],
        "is for a postgres:// store; expected no such key beside a sqlite: url",
      );
    }
    return;
  }
  const parameters = new URL(store.url).searchParams;
  const used = TLS_PARAMETERS.filter((name) => parameters.has(name));
  if (used.length > 0) {
    mistakes.report(
      ["store", "url"],
      `has ${used.join(", ")}; expected store.tls and store.ca in place of it`,
    );
  }
  const sslMode = parameters.get("sslmode");
  if (sslMode !== null && !SSL_MODES.includes(sslMode)) {
    mistakes.report(["store", "url"], `has an sslmode that is not known; expected ${SSL_MODES.join(", ")}`);
  }
}
