import type { JobDescription } from "../../x402/wire/offer.ts";

/** The extension `bazaar` of version 2, as far as version 1 has fields for it. */
interface Discovery {
  readonly info: { readonly input: object; readonly output?: object };
  readonly schema: {
    readonly properties: {
      readonly input: {
        readonly properties: { readonly queryParams?: { readonly properties?: object } | undefined };
      };
    };
  };
}

/** Returns the facts that the extension `bazaar` declares to facilitators of version 2, as those of version 1 read them. */
export function outputSchemaOf(extensions: JobDescription["extensions"]): Record<string, unknown> {
  const { bazaar } = extensions as { readonly bazaar?: Discovery };
  if (bazaar === undefined) return {};
  const { input, output } = bazaar.info;
  const { queryParams } = bazaar.schema.properties.input.properties;
  const fields = queryParams?.properties && { queryParams: queryParams.properties };
  return { input: { discoverable: true, ...input, ...fields }, ...(output && { output }) };
}
