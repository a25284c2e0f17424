import type * as z from "zod";
import type { Checked } from "../../config/check-shape.ts";
import { ConfigTable } from "../../config/config-table.ts";
import { fileKey, type Place } from "../../config/mistakes.ts";
import { fixed } from "../../config/reload.ts";
import { checkAuthorities } from "../../config/rules/tls.ts";
import { integer, oneOf, pemFile, seconds } from "../../config/value-types.ts";
import { defined } from "../../core/objects.ts";

const keys = {
  /** Connections of this process. Default 10. */
  poolSize: fixed(integer(4, 1_000).optional()),
  /** Wait at the start for a server that is not reachable yet. Default 60 s. */
  connectTimeoutMs: fixed(seconds(0).optional()),
  /** Default: the `sslmode` of the URL; without one, `verify-full` unless the host is loopback or a Unix socket. */
  tls: fixed(oneOf(["disable", "require", "verify-full"]).optional()),
  /** PEM file with the authorities to trust, instead of the well-known ones. */
  ca: fixed(pemFile().optional()),
};

/** Keys of `[store]` for a Postgres store. */
export const connectionTable = ConfigTable.of({
  in: ["store"],
  keys,
  check(connection, { tables, place }) {
    const { url } = tables.store ?? {};
    if (url?.startsWith("sqlite:")) return refuseKeys(connection, place);
    checkAuthorities(connection.ca, place.at("ca"));
    if (url !== undefined) checkParameters(new URL(url), place.at("url"));
  },
  complete: ({ ca, ...connection }) => defined({ ...connection, ca: ca?.text }),
});

function refuseKeys(connection: Checked<z.output<z.ZodObject<typeof keys>>>, place: Place): void {
  for (const key of Object.keys(connection))
    place.at(fileKey(key)).report("is for a postgres:// store; expected no such key beside a sqlite: url");
}

/** URL parameters that mean the same as `store.tls` and `store.ca`. The driver would prefer them. */
const TLS_PARAMETERS = ["ssl", "sslcert", "sslkey", "sslrootcert", "sslnegotiation", "uselibpqcompat"];
const SSL_MODES = ["disable", "require", "verify-full"];

/** Checks that `[store]` configures a connection in one place. */
function checkParameters({ searchParams }: URL, place: Place): void {
  const used = TLS_PARAMETERS.filter((name) => searchParams.has(name));
  if (used.length > 0) place.report(`has ${used.join(", ")}; expected store.tls and store.ca instead`);
  const sslMode = searchParams.get("sslmode");
  if (sslMode !== null && !SSL_MODES.includes(sslMode))
    place.report(`has sslmode=${sslMode}; expected ${SSL_MODES.join(", ")}`);
}
