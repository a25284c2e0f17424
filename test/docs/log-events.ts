import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import ts from "typescript";
import { ROOT } from "../helpers/bundle.ts";

/** A line that the program can log. */
export interface LogEvent {
  readonly level: string;
  /** Text of the line; `…` stands for what is not known before it is logged. */
  readonly message: string;
  /** Place of the call, for failures of the test. */
  readonly at: string;
}

const LEVELS = ["debug", "info", "warn", "error", "fatal"];
/** Call of a method of a logger in a file. Parsing a file takes far longer than finding that it has none. */
const LOGS = new RegExp(`\\b(?:logger|log)\\??\\.\\s*(?:${LEVELS.join("|")})\\(`);
/** Names of loggers, the last name of the expression that has the method. */
const LOGGER = /(?:^|[.#?])(?:logger|log)\??$/;

/** Returns the texts that an expression can have, if its source shows them. */
function textsOf(node: ts.Expression): string[] {
  if (ts.isStringLiteralLike(node)) return [node.text];
  if (ts.isTemplateExpression(node))
    return [[node.head.text, ...node.templateSpans.map((span) => `…${span.literal.text}`)].join("")];
  if (ts.isConditionalExpression(node)) return [...textsOf(node.whenTrue), ...textsOf(node.whenFalse)];
  return [];
}

function callsIn(source: ts.SourceFile): ts.CallExpression[] {
  const calls: ts.CallExpression[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isCallExpression(node)) calls.push(node);
    ts.forEachChild(node, visit);
  };
  visit(source);
  return calls;
}

/** Returns the value of a constant of the same method, or what is given. */
function initialOf(node: ts.Expression): ts.Expression {
  const method = ts.isIdentifier(node) ? ts.findAncestor(node, ts.isMethodDeclaration) : undefined;
  let value = node;
  const visit = (it: ts.Node): void => {
    if (ts.isVariableDeclaration(it) && it.name.getText() === node.getText() && it.initializer)
      value = it.initializer;
    ts.forEachChild(it, visit);
  };
  if (method !== undefined) visit(method);
  return value;
}

/** Returns the texts with which a method is called whose parameter is the text of a line. */
function textsOfParameter(text: ts.Identifier, calls: readonly ts.CallExpression[]): string[] {
  const method = ts.findAncestor(text, ts.isMethodDeclaration);
  const at = method?.parameters.findIndex(({ name }) => name.getText() === text.text) ?? -1;
  if (method === undefined || at < 0) return [];
  const name = method.name.getText();
  return calls
    .filter(
      ({ expression }) => ts.isPropertyAccessExpression(expression) && expression.name.getText() === name,
    )
    .flatMap(({ arguments: given }) => {
      const argument = given[at];
      return argument === undefined ? [] : textsOf(initialOf(argument));
    });
}

/** Returns what the calls of loggers in one file can log; `…` for a text that no call in the file shows. */
function eventsIn(path: string): LogEvent[] {
  const text = readFileSync(join(ROOT, path), "utf8");
  if (!LOGS.test(text)) return [];
  const source = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
  const calls = callsIn(source);
  return calls.flatMap((call) => {
    const { expression: callee } = call;
    if (!ts.isPropertyAccessExpression(callee) || !LOGGER.test(callee.expression.getText())) return [];
    const level = callee.name.text;
    const last = call.arguments.at(-1);
    if (!LEVELS.includes(level) || last === undefined) return [];
    const texts = ts.isIdentifier(last) ? textsOfParameter(last, calls) : textsOf(last);
    const { line } = source.getLineAndCharacterOfPosition(call.getStart());
    const at = `${path}:${line + 1}`;
    return (texts.length === 0 ? ["…"] : texts).map((message) => ({ level, message, at }));
  });
}

/** Returns what the program can log. Left out is the library for runners, which writes to its own log. */
export function logEvents(): LogEvent[] {
  const files = readdirSync(join(ROOT, "src"), { recursive: true, encoding: "utf8" });
  const own = files.filter((path) => path.endsWith(".ts") && !/^(?:gen|runner|page)\//.test(path));
  return own.sort().flatMap((path) => eventsIn(`src/${path}`));
}
