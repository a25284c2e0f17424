import type * as z from "zod";
import type { Checked } from "../../config/check-shape.ts";
import { ConfigTable } from "../../config/config-table.ts";
import { fileKey, type Place } from "../../config/mistakes.ts";
import type { NamedFile } from "../../config/named-files.ts";
import { changesIf, fixed } from "../../config/reload.ts";
import { checkAuthorities } from "../../config/rules/tls.ts";
import { integer, namedFile, oneOf, pemFile, seconds, trueOrFalse } from "../../config/value-types.ts";
import { oneHostUrls } from "../../core/network-address.ts";
import { defined } from "../../core/objects.ts";

const pathOf = (file: unknown) => (file as NamedFile | undefined)?.path;

const keys = {
  /** Connections of this process. Default 10. */
  poolSize: fixed(integer(4, 1_000).optional()),
  /** Wait at the start for a server that is not reachable yet. Default 60 s. */
  connectTimeoutMs: fixed(seconds(0).optional()),
  /**
   * Default: the `sslmode` of the URL. If the URL has none: `disable` if the host is loopback or a Unix socket, and
   * `verify-full` for any other host.
   */
  tls: fixed(oneOf(["disable", "require", "verify-full"]).optional()),
  /** PEM file with the authorities to trust, instead of the well-known authorities. */
  ca: fixed(pemFile().optional()),
  /** File with the password, which each connection reads. */
  passwordFile: changesIf(
    (used, next) => pathOf(used) === pathOf(next),
    namedFile("the path of a file with a password", { from: "process", isSecret: true }).optional(),
  ),
  /** False polls for other replicas' work and keeps no session. Default true. */
  listen: fixed(trueOrFalse().optional()),
};

/** Keys of `[store]` for a Postgres store. */
export const connectionTable = ConfigTable.of({
  in: ["store"],
  keys,
  check(connection, { tables, place }) {
    const { url } = tables.store ?? {};
    if (url?.startsWith("sqlite:")) return refuseKeys(connection, place);
    checkAuthorities(connection.ca, place.at("ca"));
    if (url !== undefined) checkUrl(url, place.at("url"), connection.passwordFile !== undefined);
    if (/^[\r\n]*$/.test(connection.passwordFile?.text ?? "?"))
      place.at("password_file").report(`names ${pathOf(connection.passwordFile)}, which holds no password`);
  },
  complete: ({ ca, passwordFile, ...connection }) =>
    defined({ ...connection, ca: ca?.text, passwordFile: passwordFile?.path }),
});

function refuseKeys(connection: Checked<z.output<z.ZodObject<typeof keys>>>, place: Place): void {
  for (const key of Object.keys(connection))
    place.at(fileKey(key)).report("is for a postgres:// store; expected no such key beside a sqlite: url");
}

/** URL parameters that mean the same as `store.tls` and `store.ca`. The driver would prefer them. */
const TLS_PARAMETERS = ["ssl", "sslcert", "sslkey", "sslrootcert", "sslnegotiation", "uselibpqcompat"];
const SSL_MODES = ["disable", "require", "verify-full"];

/** Servers that jobgate can use: it writes. */
const SESSION_ATTRS = ["read-write", "primary"];

/** Checks that `[store]` configures a connection in one place. */
function checkUrl(url: string, place: Place, hasPasswordFile: boolean): void {
  const { password, searchParams } = new URL(oneHostUrls(url)[0]);
  const used = TLS_PARAMETERS.filter((name) => searchParams.has(name));
  if (used.length > 0) place.report(`has ${used.join(", ")}; expected store.tls and store.ca instead`);
  checkValue("sslmode", SSL_MODES);
  checkValue("target_session_attrs", SESSION_ATTRS);
  if (searchParams.get("host")?.includes(","))
    place.report("has host=… with several hosts; expected them before the path");
  if (hasPasswordFile && (password !== "" || searchParams.has("password")))
    place.report("has a password beside store.password_file; expected one of them");

  function checkValue(name: string, values: readonly string[]): void {
    const value = searchParams.get(name);
    if (value !== null && !values.includes(value))
      place.report(`has ${name}=${value}; expected ${values.join(", ")}`);
  }
}
