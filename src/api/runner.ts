/** `jobgate/runner`: does jobs that jobgate delivers. It loads no part of the server. */

export { Fail, type Handler, type Job, json, type Result, Retry, RunnerError } from "../runner/job.ts";
export { type RunOptions, run } from "../runner/run.ts";
