import { type Rule, type Source, sourceOf } from "./rule.ts";

/** Returns the JSON Schema of the bodies that a rule can read; undefined if the rule reads no value in a JSON body. */
export function bodySchemaOf(rule: Rule): string | undefined {
  const source = sourceOf(rule);
  return source.in === "json" ? JSON.stringify(schemaAt(source.tokens, rule)) : undefined;
}

function schemaAt([token, ...others]: (Source & { in: "json" })["tokens"], rule: Rule): object {
  if (token === undefined) return valueSchema(rule);
  // An object or an array can have such a member.
  if (/^\d+$/.test(token)) return {};
  const isRequired = rule.kind !== "cases" || rule.other === undefined;
  return {
    type: "object",
    properties: { [token]: schemaAt(others, rule) },
    ...(isRequired && { required: [token] }),
    additionalProperties: true,
  };
}

function valueSchema(rule: Rule): object {
  if (rule.kind === "cases")
    return { type: "string", ...(rule.other === undefined && { enum: [...rule.cases.keys()] }) };
  return rule.measure.unit === "characters" ? { type: "string" } : { type: "number", minimum: 0 };
}
