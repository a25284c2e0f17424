import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

/** Files that other projects wrote. */
const COPIES = /^(?:src\/gen|proto\/(?:grpc|pricing_engine))\//;

interface Pattern {
  readonly name: string;
  readonly find: RegExp;
  /** Hits in the pages of docs and in README.md. Lower the number when a page is improved. */
  readonly inDocs: number;
}

/** Wordings that a reader has to read twice. CONTRIBUTING.md says what to write instead. */
const PATTERNS: readonly Pattern[] = [
  {
    name: "a pronoun in place of the noun",
    find: /\b(?:(?:ones|those) (?:that|which|who|whose|of|by|with|without|in|for|from|to|at|on)\b|one (?:that|which|who|whose|by|with|without|for)\b(?<!one by(?= one)|one for(?= (?:each|every|all)))|one of (?:a|an|another|no)\b|(?<=^|[.,;:(] ?|\b(?:and|or|is|as|than|not|with|for|of|to|in|on|by|from|like|are|has|uses|gets|takes) )that (?:of|with|by|without) )/gi,
    inDocs: 1,
  },
  {
    name: "he, his, nobody, somebody",
    find: /\b(?:he|his|him|himself|nobody|somebody|everybody|anybody)\b/gi,
    inDocs: 0,
  },
  {
    name: "this very, the very same",
    find: /\b(?:this|the|that|these|those) very\b|\bvery same\b/gi,
    inDocs: 0,
  },
  { name: "by use", find: /\b(?:paid|payments?) by use\b|\bby use\b/gi, inDocs: 0 },
  {
    name: "a sentence without a verb of its own",
    find: /(?<=^|[.!?:] )(?:(?:Undefined|Absent|Present|Missing|Null|None)(?::| (?:for|in|where|with|without|before|after|once|at|on|to|from)\b)|Absent\b|(?:That|Those|These) of\b|(?:Not|Only) for\b)/g,
    inDocs: 0,
  },
];

/** A comment begins with a noun or a verb. */
const FIRST_WORD = /^(?:Of|By|In|Whose|What|Whether|Where|Why|How|Who|Which)\b/;

interface Text {
  readonly at: string;
  readonly text: string;
}

function filesIn(...paths: string[]): string[] {
  const listed = execFileSync("git", ["ls-files", ...paths], { cwd: ROOT, encoding: "utf8" });
  return listed.trim().split("\n");
}

/** Returns the comments of a file, each as one line. Neighbouring `//` lines are one comment. */
function commentsIn(path: string): Text[] {
  const comments: { at: string; lines: string[]; isOpen: boolean }[] = [];
  let last: (typeof comments)[number] | undefined;
  for (const [i, line] of readFileSync(join(ROOT, path), "utf8").split("\n").entries()) {
    const inBlock = last?.isOpen === true && last.lines[0] !== "//";
    const block = inBlock ? undefined : /^\s*\/\*+ ?(.*)$/.exec(line);
    const single = inBlock ? undefined : /^\s*\/\/ ?(.*)$/.exec(line);
    const trailing = inBlock ? undefined : /^[^"'`]*\S +\/\/ (\S.*)$/.exec(line);
    if (inBlock) {
      last?.lines.push(line.replace(/^\s*\* ?/, "").replace(/\s*\*\/.*$/, ""));
      if (line.includes("*/")) last = undefined;
    } else if (block) {
      last = { at: `${path}:${i + 1}`, lines: [(block[1] ?? "").replace(/\s*\*\/.*$/, "")], isOpen: true };
      comments.push(last);
      if (line.includes("*/")) last = undefined;
    } else if (single && last?.lines[0] === "//") last.lines.push(single[1] ?? "");
    else if (single) {
      last = { at: `${path}:${i + 1}`, lines: ["//", single[1] ?? ""], isOpen: true };
      comments.push(last);
    } else {
      last = undefined;
      if (trailing) comments.push({ at: `${path}:${i + 1}`, lines: [trailing[1] ?? ""], isOpen: false });
    }
  }
  return comments.map(({ at, lines }) => ({
    at,
    text: lines
      .filter((line) => line !== "//")
      .join(" ")
      .replace(/@(?:param|returns|throws) (?:\w+ )?/g, ". ")
      .trim(),
  }));
}

/** Returns the lines of a page that are prose. */
function proseIn(path: string): Text[] {
  const prose = readFileSync(join(ROOT, path), "utf8").replace(/```[\s\S]*?```/g, (code) =>
    code.replace(/[^\n]/g, ""),
  );
  return prose
    .split("\n")
    .map((line, i) => ({ at: `${path}:${i + 1}`, text: line.replace(/^\s*[-*#>|]+ */, "") }));
}

const COMMENTS = filesIn("src", "proto")
  .filter((path) => /\.(?:tsx?|css|proto)$/.test(path) && !COPIES.test(path))
  .flatMap(commentsIn);
const PROSE = filesIn("docs", "README.md")
  .filter((path) => path.endsWith(".md"))
  .flatMap(proseIn);

function hitsOf(find: RegExp, texts: readonly Text[]): string[] {
  return texts.flatMap(({ at, text }) => [...text.matchAll(find)].map(([hit]) => `${at}: ${hit}`));
}

test.each(PATTERNS)("No comment of src or proto has $name", ({ find }) => {
  expect(hitsOf(find, COMMENTS)).toEqual([]);
});

test("Each comment of src and proto begins with a noun or a verb", () => {
  expect(COMMENTS.filter(({ text }) => FIRST_WORD.test(text)).map(({ at }) => at)).toEqual([]);
});

test.each(PATTERNS)("The pages have at most $inDocs times $name", ({ find, inDocs }) => {
  const hits = hitsOf(find, PROSE);
  expect(hits.length, hits.join("\n")).toBeLessThanOrEqual(inDocs);
});

test("The patterns find the wordings that they are for, and comments of every kind are read", () => {
  const texts = ["One that failed waits", "He waits", "this very payment", "paid by use", "Absent: none"];
  for (const [i, { find }] of PATTERNS.entries()) {
    const [wrong = ""] = texts.slice(i);
    expect(hitsOf(find, [{ at: "", text: wrong }])).toHaveLength(1);
  }
  expect(COMMENTS.length).toBeGreaterThan(9_000);
});
