import type { Checked } from "../check-shape.ts";
import type { CheckedFile } from "../schema.ts";

/** What is left of `[webhooks]` once its wrong values are taken out. */
export type WebhooksTable = NonNullable<Checked<CheckedFile>["webhooks"]>;

/** What is left of one endpoint. */
export type EndpointTable = NonNullable<NonNullable<WebhooksTable["endpoints"]>[number]>;
