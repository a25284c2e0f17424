import { createSecureContext } from "node:tls";
import type { MistakeList, Place } from "../mistakes.ts";
import type { NamedFile } from "../named-files.ts";
import type { ConfigTables } from "../schema.ts";

/** Checks that the runners' certificate, key and authorities work together. */
export function checkTls({ runner }: ConfigTables, mistakes: MistakeList): void {
  const { cert, key, clientCa } = runner?.tls ?? {};
  const place = mistakes.at("runner", "tls");
  checkKeyPair(cert, key, place);
  checkAuthorities(clientCa, place.at("client_ca"));
}

/** Checks that a certificate and a key work together. */
export function checkKeyPair(cert: NamedFile | undefined, key: NamedFile | undefined, place: Place): void {
  if (cert === undefined || key === undefined || isUsable({ cert: cert.text, key: key.text })) return;
  place.report(
    `names ${cert.path} and ${key.path}, which do not work together; expected a PEM certificate and its private key`,
  );
}

/** Checks that a file has certificates of authorities. */
export function checkAuthorities(file: NamedFile | undefined, place: Place): void {
  // OpenSSL accepts a CA file without any certificate as an empty list.
  if (
    file === undefined ||
    (file.text.includes("-----BEGIN CERTIFICATE-----") && isUsable({ ca: file.text }))
  )
    return;
  place.report(`names ${file.path}, which holds no certificate; expected a PEM file`);
}

function isUsable(context: { cert: string; key: string } | { ca: string }): boolean {
  try {
    createSecureContext(context);
    return true;
  } catch {
    return false;
  }
}
