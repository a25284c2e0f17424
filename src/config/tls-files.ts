import { createSecureContext } from "node:tls";
import type { TlsFiles } from "./config.ts";
import type { MistakeList, Place } from "./mistakes.ts";
import { readNamedFile } from "./named-files.ts";
import type { ConfigTables } from "./schema.ts";

/** Reads the PEM files, and checks that they work together. Their paths are relative to the working directory. */
export async function readTlsFiles(
  { runner, store }: ConfigTables,
  mistakes: MistakeList,
): Promise<TlsFiles> {
  const tls = runner?.tls;
  const tlsPlace = mistakes.at("runner", "tls");
  const caPlace = mistakes.at("store", "ca");
  const readPem = async (place: Place, file: string | undefined, isSecret = false) =>
    file && readNamedFile(file, { place, expected: "a PEM file", isSecret });
  const [cert, key, clientCa, storeCa] = await Promise.all([
    readPem(tlsPlace.at("cert"), tls?.cert),
    readPem(tlsPlace.at("key"), tls?.key, true),
    readPem(tlsPlace.at("client_ca"), tls?.clientCa),
    readPem(caPlace, store?.ca),
  ]);
  if (cert !== undefined && key !== undefined && !isUsable({ cert, key })) {
    tlsPlace.report(
      `names ${tls?.cert} and ${tls?.key}, which do not work together; expected a PEM certificate and its private key`,
    );
  }
  checkAuthorities(tlsPlace.at("client_ca"), tls?.clientCa, clientCa);
  checkAuthorities(caPlace, store?.ca, storeCa);
  return { cert, key, clientCa, storeCa };
}

function checkAuthorities(place: Place, file: string | undefined, ca: string | undefined): void {
  // OpenSSL accepts a CA file without any certificate as an empty list.
  if (ca === undefined || (ca.includes("-----BEGIN CERTIFICATE-----") && isUsable({ ca }))) return;
  place.report(`names ${file}, which holds no certificate; expected a PEM file`);
}

function isUsable(context: { cert: string; key: string } | { ca: string }): boolean {
  try {
    createSecureContext(context);
    return true;
  } catch {
    return false;
  }
}
