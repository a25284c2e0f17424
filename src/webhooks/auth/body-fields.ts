/** A text field at the top of a JSON body; undefined when there is none, or the body is something else. */
export function textField(body: Uint8Array, name: string): string | undefined {
  return textFields(body, [name])[name];
}

/** Several of them. */
export function textFields<const Name extends string>(
  body: Uint8Array,
  names: readonly Name[],
): Partial<Record<Name, string>> {
  const object = parseObject(body);
  const fields: Partial<Record<Name, string>> = {};
  for (const name of names) {
    const value = object[name];
    if (typeof value === "string" && value !== "") fields[name] = value;
  }
  return fields;
}

function parseObject(body: Uint8Array): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString());
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}
