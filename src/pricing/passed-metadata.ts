import { Metadata } from "@grpc/grpc-js";

/**
 * What one connection says to its other end, and what each end of a call says for itself. The length is of the bytes
 * as they were sent: an answer that is amended has another, and HTTP/2 resets a stream that does not keep to it.
 */
const OF_ONE_CONNECTION = new Set(["te", "content-type", "content-length", "user-agent", "host", "date"]);

/** What the sender of metadata said in its own name, which is all that is passed on. */
export function passedMetadata(metadata: Metadata): Metadata {
  const passed = new Metadata();
  for (const key of Object.keys(metadata.getMap())) {
    if (isReserved(key)) continue;
    for (const value of metadata.get(key)) passed.add(key, value);
  }
  return passed;
}

function isReserved(key: string): boolean {
  // Details of an error travel under a name of gRPC's own, but are the server's.
  if (key === "grpc-status-details-bin") return false;
  return key.startsWith(":") || key.startsWith("grpc-") || OF_ONE_CONNECTION.has(key);
}
