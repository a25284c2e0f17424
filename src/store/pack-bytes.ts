/**
 * Copies byte arrays one after the other into one new buffer, which a message can then transfer.
 * Posting a view as it is would copy all of the buffer behind it, such as Node's pool of small Buffers.
 * @returns the buffer, and for each array its view in it
 */
export function packBytes(arrays: readonly Uint8Array[]): { buffer: ArrayBuffer; views: Uint8Array[] } {
  const buffer = new ArrayBuffer(arrays.reduce((total, array) => total + array.byteLength, 0));
  let offset = 0;
  const views = arrays.map((array) => {
    const view = new Uint8Array(buffer, offset, array.byteLength);
    view.set(array);
    offset += array.byteLength;
    return view;
  });
  return { buffer, views };
}
