/** Pauses of operators. */
export interface PauseLedger {
  /** Lists the pauses, the longest first. */
  listPauses(): Promise<Pause[]>;
  /** Saves a pause. If there is one already, its time stays, and the other fields change. */
  savePause(pause: Omit<Pause, "since">): Promise<Pause>;
  /** Ends a pause. @returns the pause; undefined if there was none */
  endPause(of: Pick<Pause, "kind" | "key">): Promise<Pause | undefined>;
}

/** Pause of a job, a webhook endpoint or an API. */
export interface Pause {
  /** `job`, `endpoint`, or the kind of a runner of this process, such as `api`. */
  readonly kind: string;
  /** `service/index` of a job, path of an endpoint, or name of a runner. */
  readonly key: string;
  /** IDs of the jobs whose JobCalls wait, by the configuration at the time of the pause. */
  readonly jobIds: readonly bigint[];
  readonly refusesAccepts: boolean;
  /** Operator's name. */
  readonly by: string;
  /** Empty if no reason was given. */
  readonly note: string;
  /** Unix milliseconds. */
  readonly since: number;
}
