/* Takes the place of `src/store/sqlite/watched-files.ts`: nobody deletes a run's database. */
export class WatchedFiles {
  check(): void {}

  noteShrunk(): void {}

  close(): void {}
}

export class CheckpointGuard {
  readonly allowsCheckpoint = true;

  checkpointed(): void {}

  close(): void {}
}
