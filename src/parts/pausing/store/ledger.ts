/** Pauses of operators. */
export interface PauseLedger {
  /** Lists what is paused, the longest paused first. */
  listPauses(): Promise<Pause[]>;
  /** Pauses something. If it is paused already, only who did it, why and how change. */
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
  /** Jobs whose JobCalls wait, as of the configuration when it was paused. */
  readonly jobIds: readonly bigint[];
  readonly refusesAccepts: boolean;
  /** Operator's name. */
  readonly by: string;
  /** Empty if no reason was given. */
  readonly note: string;
  /** Unix milliseconds. */
  readonly since: number;
}
