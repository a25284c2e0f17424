import { createContext, Script } from "node:vm";
import type { ErrorObject, FuncKeywordDefinition, ValidateFunction } from "ajv";
import type { Ajv2020 } from "ajv/dist/2020.js";
import { hasRoundedInteger } from "./json-numbers.ts";
import { isNestedDeeper } from "./objects.ts";

/** A schema that cannot be used. The message completes "the schema …". */
export class SchemaProblem extends Error {
  override readonly name = "SchemaProblem";
}

/** Mismatch between a body and the schema. */
export interface BodyProblem {
  /** JSON pointer into the body; empty for the whole body. */
  readonly path: string;
  readonly message: string;
}

const DIALECT = "https://json-schema.org/draft/2020-12/schema";

/**
 * Largest body of which every problem is listed. Each problem costs 1 µs and memory, and a body can be nothing but
 * problems.
 */
const MAX_LISTED_BYTES = 2_048;
const MAX_PROBLEMS = 20;
const MAX_PATH_LENGTH = 200;

/** CPU time for a check. An ordinary one takes under 1 ms for 16 KiB. */
const BASE_TIMEOUT_MS = 50;
const BYTES_PER_MS = 10_000;
/** Share of the timeout that an idle machine grants to the check as CPU time. If the thread got less, the machine was busy. */
const MOST = 0.8;

/** Bound on the nesting of a schema: compiling a deeper one could overflow the stack. */
export const MAX_SCHEMA_NESTING = 200;

/**
 * Keywords whose cost can grow faster than the body: regular expressions and recursion. Only schemas with one of these
 * keywords, or with a check that took long, are checked under a timeout, which costs 70 µs.
 */
const COSTLY_KEYWORDS = /"(pattern|patternProperties|\$ref|\$dynamicRef)"/;

/** Replaces the validator's own keyword, which compares each item with every other. */
const uniqueItems: FuncKeywordDefinition = {
  keyword: "uniqueItems",
  type: "array",
  validate: (isAsked: boolean, items: unknown[]) =>
    !isAsked || new Set(items.map(canonical)).size === items.length,
  errors: false,
  error: { message: "must NOT have duplicate items" },
};

/** CPU time of the calling thread. Before Node 23.9, only the CPU time of the whole process is available. */
const cpuUsage: typeof process.cpuUsage =
  (process as { threadCpuUsage?: typeof process.cpuUsage }).threadCpuUsage ?? process.cpuUsage;

/**
 * Starts a clock. The returned function returns the CPU time in milliseconds that this thread has used since the start,
 * or slightly more.
 */
export function startCpuClock(): () => number {
  const startedAt = performance.now();
  const before = cpuUsage();
  return () => {
    const { user, system } = cpuUsage(before);
    // The CPU time of the whole process can be longer than the time that passed.
    return Math.min((user + system) / 1_000, performance.now() - startedAt);
  };
}

/** Returns true if bodies of a media type are JSON, which a schema can describe. */
export function isJsonType(contentType: string): boolean {
  return /^application\/(?:[^;]*\+)?json(?:;|$)/i.test(contentType);
}

/** A JSON Schema 2020-12 that bodies of requests are checked against. */
export class BodySchema {
  readonly #validate: ValidateFunction;
  readonly #validateAll: ValidateFunction;
  #isCostly: boolean;

  private constructor(validators: { first: ValidateFunction; all: ValidateFunction }, isCostly: boolean) {
    this.#validate = validators.first;
    this.#validateAll = validators.all;
    this.#isCostly = isCostly;
  }

  /**
   * Compiles a schema. It has to come from the operator, because the validator turns it into code. No reference is
   * fetched. Loads the validator, so that a process without a schema never does.
   * @param text JSON
   * @throws SchemaProblem
   */
  static async compile(text: string): Promise<BodySchema> {
    const schema = parseSchema(text);
    // Bundled, the CommonJS module has no named exports.
    const { Ajv2020 } = (await import("ajv/dist/2020.js")).default;
    schemaOfSchemas ??= new Ajv2020(OPTIONS);
    if (!schemaOfSchemas.validateSchema(schema)) {
      throw new SchemaProblem(
        `is invalid: ${schemaOfSchemas.errorsText(schemaOfSchemas.errors, { dataVar: "" })}`,
      );
    }
    const compile = (allErrors: boolean): ValidateFunction => {
      try {
        return new Ajv2020({ ...OPTIONS, meta: false, validateSchema: false, allErrors })
          .removeKeyword("uniqueItems")
          .addKeyword(uniqueItems)
          .compile(schema);
      } catch (error) {
        throw new SchemaProblem(`does not compile: ${error instanceof Error ? error.message : error}`);
      }
    };
    const first = compile(false);
    // The validator of an asynchronous schema returns a promise, which JavaScript treats as true.
    if ("$async" in first) throw new SchemaProblem("has the keyword $async");
    return new BodySchema({ first, all: compile(true) }, COSTLY_KEYWORDS.test(text));
  }

  /**
   * Returns the problems of a body; none if it matches. A body that takes too long to check has that as its problem.
   */
  check(body: Uint8Array): readonly BodyProblem[] {
    const maxMs = BASE_TIMEOUT_MS + Math.ceil(body.length / BYTES_PER_MS);
    return this.checkWithin(maxMs, body) ?? [{ path: "", message: "takes too long to check" }];
  }

  /** Checks a body like {@link check}. Returns undefined if the check takes more CPU time than `maxMs`. */
  checkWithin(maxMs: number, body: Uint8Array): readonly BodyProblem[] | undefined {
    const cpuMs = startCpuClock();
    for (;;) {
      const problems = this.#checkOnce(maxMs, body);
      // If the check timed out although the thread has used less than the share MOST of the timeout as CPU time, the
      // machine was busy. The check is then repeated.
      if (problems !== undefined || cpuMs() >= MOST * maxMs) return problems;
    }
  }

  /** Returns undefined if the check did not finish within `maxMs`. Other processes may have used a part of that time. */
  #checkOnce(maxMs: number, body: Uint8Array): readonly BodyProblem[] | undefined {
    const json = parseBody(body);
    if (json === undefined) return [{ path: "", message: "is not JSON in UTF-8" }];
    if (json.isRounded)
      return [{ path: "", message: "has a number with more digits than can be read, close to an integer" }];
    try {
      if (this.#runs(this.#validate, json.value, maxMs)) return [];
      if (body.length > MAX_LISTED_BYTES) return toProblems(this.#validate.errors);
      this.#runs(this.#validateAll, json.value, maxMs);
      return toProblems(this.#validateAll.errors);
    } catch (error) {
      if (isOfKind(error, "code", TIMEOUT)) return undefined;
      // The validator follows the body's depth on the stack when the schema is recursive.
      if (isOfKind(error, "name", "RangeError")) return [{ path: "", message: "is nested too deeply" }];
      throw error;
    }
  }

  #runs(validate: ValidateFunction, value: unknown, maxMs: number): boolean {
    if (this.#isCostly) return runWithin(maxMs, () => validate(value));
    const cpuMs = startCpuClock();
    try {
      return validate(value);
    } finally {
      this.#isCostly = cpuMs() > maxMs;
    }
  }
}

/** Unknown keywords and formats are annotations. Without `ownProperties`, "toString" would be in every object. */
const OPTIONS = { strict: false, validateFormats: false, ownProperties: true, logger: false } as const;

/**
 * Validator of schemas. It is made once, because compiling the schema of schemas takes 30 times as long as compiling
 * another schema.
 */
let schemaOfSchemas: Ajv2020 | undefined;

function parseSchema(text: string): boolean | Record<string, unknown> {
  let schema: unknown;
  try {
    schema = JSON.parse(text);
  } catch {
    throw new SchemaProblem("is not JSON");
  }
  if (isNestedDeeper(schema, MAX_SCHEMA_NESTING))
    throw new SchemaProblem(`is nested more than ${MAX_SCHEMA_NESTING} levels deep`);
  if (typeof schema === "boolean") return schema;
  if (typeof schema !== "object" || schema === null || Array.isArray(schema)) {
    throw new SchemaProblem("is neither an object nor a boolean");
  }
  const { $schema } = schema as { $schema?: unknown };
  if ($schema !== undefined && String($schema).replace(/#$/, "") !== DIALECT) {
    throw new SchemaProblem(`is of another dialect than ${DIALECT}`);
  }
  return schema as Record<string, unknown>;
}

/** Returns one text for equal JSON values, however their properties are ordered. */
function canonical(value: unknown): string {
  return typeof value === "object" ? JSON.stringify(value, sortProperties) : JSON.stringify(value);
}

function sortProperties(_key: string, value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Boxes the value, because `undefined` is the result for a body that is not JSON. */
function parseBody(body: Uint8Array): { value: unknown; isRounded: boolean } | undefined {
  try {
    const text = utf8.decode(body);
    return { value: JSON.parse(text), isRounded: hasRoundedInteger(text) };
  } catch {
    return undefined;
  }
}

function toProblems(errors: readonly ErrorObject[] | null | undefined): BodyProblem[] {
  const problems = new Map<string, BodyProblem>();
  for (const error of errors ?? []) {
    const path = pathOf(error).slice(0, MAX_PATH_LENGTH);
    const message = error.message ?? "does not match";
    problems.set(`${path} ${message}`, { path, message });
    if (problems.size === MAX_PROBLEMS) break;
  }
  return problems.size === 0 ? [{ path: "", message: "does not match" }] : [...problems.values()];
}

/** Returns the path of the missing or unexpected property, or else the path of the value. */
function pathOf({ instancePath, params }: ErrorObject): string {
  const { missingProperty, additionalProperty, unevaluatedProperty } = params as Record<string, unknown>;
  const property = missingProperty ?? additionalProperty ?? unevaluatedProperty;
  if (typeof property !== "string") return instancePath;
  return `${instancePath}/${property.replaceAll("~", "~0").replaceAll("/", "~1")}`;
}

/**
 * Runs `run()` under a timeout. The engine can interrupt a script, regular expressions included, but not a function.
 */
const script = new Script("run()");
const sandbox: { run: () => boolean } = { run: () => false };
let context: object | undefined;

function runWithin(timeoutMs: number, run: () => boolean): boolean {
  context ??= createContext(sandbox);
  sandbox.run = run;
  return script.runInContext(context, { timeout: timeoutMs }) as boolean;
}

const TIMEOUT = "ERR_SCRIPT_EXECUTION_TIMEOUT";

/** The error may belong to the script's context, which has error classes of its own, so `instanceof` fails. */
function isOfKind(error: unknown, field: "name" | "code", value: string): boolean {
  return (error as NodeJS.ErrnoException | undefined)?.[field] === value;
}
