// Only the rules that biome does not have: those that need types, as a promise that nobody awaits is a lost error, and one for
// the pauses of tests.
import tseslint from "typescript-eslint";

/** A pause, whose time is directly in its arguments or depends on a condition. */
const CALL =
  "CallExpression:matches([callee.name=/^(sleep|setTimeout|delay)$/], [callee.property.name=/^(setTimeout|wait|waitForTimeout)$/])";
const PAUSE = `:matches(${CALL}, ${CALL} > ConditionalExpression, ${CALL} > LogicalExpression)`;
/** A number, a random one, or arithmetic of them. */
const NUMBER =
  ":matches(Literal[raw=/^[0-9.]/], BinaryExpression:not(:has(Identifier:not([name=/^(Math|random)$/]))))";
const UNNAMED_PAUSE = {
  selector: `${PAUSE} > ${NUMBER}`,
  message: "Wait for the event. A pause that is a test's input has a name that says what it is.",
};

export default tseslint.config(
  { ignores: ["dist", "src/gen", "node_modules", "**/node_modules", "examples"] },
  {
    files: ["**/*.{ts,tsx}"],
    languageOptions: {
      parser: tseslint.parser,
      // With `projectService` the checks take two thirds more CPU. No rule reads JSDoc.
      parserOptions: { project: ["tsconfig.json", "src/page/tsconfig.json"], jsDocParsingMode: "none" },
    },
    plugins: { "@typescript-eslint": tseslint.plugin },
    rules: {
      "@typescript-eslint/no-floating-promises": "error",
      "@typescript-eslint/no-misused-promises": "error",
      "@typescript-eslint/await-thenable": "error",
      "@typescript-eslint/return-await": ["error", "in-try-catch"],
      "@typescript-eslint/switch-exhaustiveness-check": "error",
      "@typescript-eslint/only-throw-error": "error",
    },
  },
  {
    files: ["test/**/*.{js,ts,tsx}"],
    rules: {
      "no-restricted-syntax": ["error", UNNAMED_PAUSE],
    },
  },
);
