/** What another server answered is larger than anything that it should. */
export class BodyTooLarge extends Error {}

/** Reads the body of another server's answer, and no more of it than `maxBytes`. @throws BodyTooLarge */
export async function readBoundedBody(response: Response, maxBytes: number): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.byteLength;
    if (size > maxBytes) throw new BodyTooLarge(`the body is larger than ${maxBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
