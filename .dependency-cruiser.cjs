/**
 * The layers of docs/architecture.md. Imports point down:
 * main, commands, host, parts, operator, (x402 | webhooks | delivery), store, (http | chain | grpc),
 * (config | log | node), core.
 */
const CORE = "^src/core/";
/** What browsers run. */
const PAGES = "^src/(page|parts/[^/]+/view)/";
/** Code of parts that runs in browsers and in the program. */
const PORTABLE = "^src/parts/[^/]+/portable/";
/** The configuration's types, which every part may name. */
const CONFIG_TYPES = "^src/config/config\\.ts$";

/** @type {import("dependency-cruiser").IConfiguration} */
module.exports = {
  forbidden: [
    { name: "no-circular", severity: "error", from: {}, to: { circular: true } },
    {
      name: "no-orphans",
      severity: "error",
      from: { orphan: true, path: "^src/", pathNot: [CORE, "^src/gen/", "worker\\.ts$", "\\.d\\.ts$"] },
      to: {},
    },
    {
      name: "core-imports-nothing-outward",
      severity: "error",
      from: { path: CORE },
      to: { path: "^src/", pathNot: CORE },
    },
    {
      name: "config-log-and-node-import-only-core",
      severity: "error",
      from: { path: "^src/(config|log|node)/" },
      to: { path: "^src/", pathNot: ["^src/$1/", CORE] },
    },
    {
      name: "ingress-and-delivery-meet-only-in-the-store",
      comment: "x402, webhooks and delivery never import each other",
      severity: "error",
      from: { path: "^src/(x402|webhooks|delivery)/" },
      to: { path: "^src/(x402|webhooks|delivery)/", pathNot: "^src/$1/" },
    },
    {
      name: "no-part-imports-another",
      comment: "parts/outbound and parts/transactions are tools of parts",
      severity: "error",
      from: { path: "^src/parts/([^/]+)/" },
      to: { path: "^src/parts/", pathNot: "^src/parts/($1|outbound|transactions)/" },
    },
    {
      name: "parts-do-not-import-the-host",
      comment: "it is given to them; the command of a part uses the tools of commands",
      severity: "error",
      from: { path: "^src/parts/" },
      to: {
        path: "^src/(main|start-gateway|host|parts|load-parts|open-store|store-events)\\.ts$",
      },
    },
    {
      name: "the-core-imports-no-part",
      comment:
        "parts.ts lists the parts, program.ts the commands, and part-views.ts and part-chains.ts what the pages show of parts",
      severity: "error",
      from: {
        path: "^src/",
        pathNot:
          "^src/(stored-)?parts(/|\\.ts$)|^src/commands/program\\.ts$|^src/page/part-(views|chains)\\.ts$",
      },
      to: { path: "^src/parts/" },
    },
    {
      name: "the-runner-library-loads-nothing-of-the-server",
      comment: "src/runner is the client library `jobgate/runner`",
      severity: "error",
      from: { path: "^src/runner/" },
      to: { path: "^src/", pathNot: ["^src/(runner|gen)/", "^src/grpc/service-definition\\.ts$", CORE] },
    },
    {
      name: "nothing-below-imports-the-top",
      severity: "error",
      from: {
        path: "^src/(core|node|log|config|http|x402|webhooks|delivery|operator|chain|grpc|store|runner)/",
      },
      to: {
        path: "^src/(main|start-gateway|host|parts|load-parts|open-store|store-events)\\.ts$|^src/(commands|api)/",
      },
    },
    {
      name: "only-commands-read-configuration-files",
      comment: "parts take a Config and never read files; the config.ts of a part is its table",
      severity: "error",
      from: {
        path: "^src/",
        pathNot:
          "^src/(commands|config|api|parts/(pay|init|dev))/|^src/parts/.+/config\\.ts$|^src/(main|host|part|parts|load-parts|load-config)\\.ts$",
      },
      to: { path: "^src/config/", pathNot: CONFIG_TYPES },
    },
    {
      name: "only-open-store-names-an-implementation",
      comment: "a part with another kind of store uses the tools of the core's store",
      severity: "error",
      from: {
        path: "^src/",
        pathNot: "^src/(open-store|part)\\.ts$|^src/store/|^src/parts/(postgres|[^/]+/store)/",
      },
      to: { path: "^src/store/", pathNot: "^src/store/((store|operations)\\.ts$|contract/|rules/)" },
    },
    {
      name: "telemetry-and-operator-see-only-the-interface",
      severity: "error",
      from: { path: "^src/(parts/(telemetry|operator)|operator)/" },
      to: { path: "^src/store/", pathNot: "^src/store/(store\\.ts$|contract/|rules/)" },
    },
    {
      name: "the-store-imports-no-gateway",
      severity: "error",
      from: { path: "^src/store/" },
      to: { path: "^src/(x402|webhooks|delivery|operator|http|chain|grpc)/" },
    },
    {
      name: "store-rules-and-contract-name-no-dialect",
      severity: "error",
      from: { path: "^src/store/((store|operations)\\.ts$|contract/|rules/)" },
      to: { path: "^src/store/sqlite/" },
    },
    {
      name: "the-module-of-a-part-imports-only-the-store",
      comment: "the threads of the store load it",
      severity: "error",
      from: { path: "^src/parts/([^/]+)/store/" },
      to: {
        path: "^src/",
        pathNot: [CORE, "^src/parts/($1|transactions)/store/", "^src/store/"],
      },
    },
    {
      name: "kinds-of-store-share-only-the-tools",
      severity: "error",
      from: { path: "^src/parts/" },
      to: { path: "^src/store/sqlite/" },
    },
    {
      name: "chain-and-grpc-are-tools",
      comment: "both are tools that know nothing of their callers",
      severity: "error",
      from: { path: "^src/(chain|grpc)/" },
      to: { path: "^src/(x402|webhooks|delivery|operator|http|store)/" },
    },
    {
      name: "monitoring-stays-behind-telemetry",
      comment: "parts report to a Telemetry and work without one",
      severity: "error",
      from: { path: "^src/", pathNot: "^src/parts/telemetry/" },
      to: { path: "node_modules/(prom-client|@opentelemetry)/" },
    },
    {
      name: "grpc-stays-in-delivery-operator-two-parts-and-the-runner-library",
      severity: "error",
      from: {
        path: "^src/",
        pathNot: [
          "^src/(delivery|operator|page|parts/(pricing-engine|work-stream|operator)|runner|grpc|gen)/",
          "^src/parts/[^/]+/(view/|operator(-states|-messages)?\\.ts$)",
          "^src/commands/operator-client\\.ts$",
        ],
      },
      to: { path: "node_modules/(@grpc|@connectrpc|@bufbuild)/|^src/gen/" },
    },
    {
      name: "the-page-runs-in-a-browser",
      comment: "it imports itself, the generated API and libraries that browsers run, and nothing imports it",
      severity: "error",
      from: { path: PAGES },
      to: {
        pathNot: [
          PAGES,
          PORTABLE,
          "^src/gen/",
          "node_modules/(@bufbuild|@connectrpc|@tanstack|preact|uplot)/",
        ],
        dependencyTypesNot: ["type-only"],
      },
    },
    {
      name: "portable-code-imports-only-itself",
      comment: "browsers run it, and so does the program",
      severity: "error",
      from: { path: PORTABLE },
      to: { pathNot: PORTABLE },
    },
    {
      name: "nobody-imports-the-page",
      severity: "error",
      from: { path: "^src/", pathNot: PAGES },
      to: { path: PAGES },
    },
    {
      name: "viem-stays-in-x402-chain-and-parts",
      severity: "error",
      from: {
        path: "^src/",
        pathNot:
          "^src/(x402|chain|parts/(operator|pay|dev|init|pricing-engine|transactions|local-facilitator|facilitator-service|refunds|rates|mpp|mcp|receipts|sign-in|callers|metered|permit2|version-1|channels))/|^src/core/(addresses|private-keys)\\.ts$",
      },
      to: { path: "node_modules/(viem|@x402)/" },
    },
    {
      name: "toml-stays-in-config",
      severity: "error",
      from: { path: "^src/", pathNot: "^src/(config|parts/dev)/" },
      to: { path: "node_modules/(smol-toml|toml-eslint-parser)/" },
    },
  ],
  options: {
    doNotFollow: { path: "node_modules" },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: "tsconfig.json" },
    enhancedResolveOptions: { exportsFields: ["exports"], conditionNames: ["import", "types", "node"] },
  },
};
