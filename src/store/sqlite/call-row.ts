/** The `state` column of `job_calls`. */
export type CallState = "held" | "ready" | "leased" | "delayed" | "dead";
