import { RESULT_CHUNK_BYTES } from "../../core/job-call.ts";
import type { CallLookup, StoredResult } from "../../store/contract/call-lookup.ts";

type Results = Pick<CallLookup, "readResult">;

/** Reads the bytes of a result from `first` to `last`, one chunk at a time, when the reader has taken the one before. */
export async function* readResultBytes(
  calls: Results,
  callId: number,
  { first, last }: { readonly first: number; readonly last: number },
): AsyncGenerator<Uint8Array> {
  for (let at = first; at <= last; ) {
    const bytes = await calls.readResult(callId, at, Math.min(RESULT_CHUNK_BYTES, last + 1 - at));
    if (bytes === undefined || bytes.byteLength === 0)
      throw new Error(`the result of JobCall ${callId} ends at byte ${at}`);
    yield bytes;
    at += bytes.byteLength;
  }
}

/** Reads a whole result, which must be small enough for that. */
export async function wholeResult(
  calls: Results,
  callId: number,
  { body, size }: Pick<StoredResult, "body" | "size">,
): Promise<Uint8Array> {
  if (body !== undefined) return body;
  const pieces: Uint8Array[] = [];
  for await (const bytes of readResultBytes(calls, callId, { first: 0, last: size - 1 })) pieces.push(bytes);
  return Buffer.concat(pieces);
}
