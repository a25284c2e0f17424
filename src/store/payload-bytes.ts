/**
 * Bytes of the JobCall or the result that an operation brings: what can be large, and by which the size of a batch is
 * bounded.
 * @param input what an operation is given, of whichever store
 */
export function payloadBytes(input: object | undefined): number {
  const { call, result } = (input ?? {}) as {
    readonly call?: { readonly encoded: Uint8Array };
    readonly result?: { readonly body: Uint8Array };
  };
  return (call?.encoded.byteLength ?? 0) + (result?.body.byteLength ?? 0);
}
